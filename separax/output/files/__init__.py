"""Solutions in the files of other tools."""
