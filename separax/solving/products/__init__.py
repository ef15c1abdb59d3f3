"""All products of hundreds of functions per axis, solved for directly."""
