"""The subcommands of `tessella`: a file each, with ``add_arguments`` and ``run``."""
