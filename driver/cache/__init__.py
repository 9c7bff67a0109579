"""Programs and packed weights on disk."""
