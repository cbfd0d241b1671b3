"""Checks that the relative links of Markdown pages lead somewhere. Usage: check_links.py PAGE_OR_DIR..."""
import pathlib
import re
import sys


def main() -> int:
    pages = [page for given in map(pathlib.Path, sys.argv[1:]) for page in (sorted(given.glob("*.md")) if given.is_dir() else [given])]
    broken = 0
    for page in pages:
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in link and not (page.parent / link).exists():
                print(f"{page}: {link} is not there")
                broken += 1
    print(f"{len(pages)} pages, {broken} broken links")
    return broken > 0


if __name__ == "__main__":
    sys.exit(main())
