"""The search for tile sizes on a GPU: stride tables, read and write plans, the model, its log."""
