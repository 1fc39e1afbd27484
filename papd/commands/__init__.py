"""The subcommands of ``papd``: a module each, with ``Options`` and ``main(words) -> exit status``."""
