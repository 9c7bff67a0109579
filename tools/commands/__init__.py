"""The subcommands of `tessella`: one file each, with ``add_arguments`` and ``run``."""
