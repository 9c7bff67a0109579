"""Reports to look at: how a model was compiled, what runs it, and how long each part takes."""
