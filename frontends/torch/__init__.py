"""PyTorch: programs of ``torch.export``, modules, and the backend of ``torch.compile``.

Importing this package does not import PyTorch.
"""
