"""The viewer of a page: a solution as data that the browser evaluates."""
