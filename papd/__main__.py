"""``python -m papd`` is the ``papd`` command."""

from papd.cli import main

if __name__ == "__main__":
    main()
