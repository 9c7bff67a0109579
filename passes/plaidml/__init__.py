"""PlaidML's search for tile sizes on GPUs: stride tables, read and write plans, model, log."""
