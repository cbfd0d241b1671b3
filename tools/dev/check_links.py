"""Checks the links of Markdown pages, pictures included. Usage: check_links.py START PAGE_OR_DIR...

Each link must lead to a file and, with #heading, to a heading of it. Each page must be reachable from START.
"""
import pathlib
import re
import sys
import typing

LINK = re.compile(r"\]\(([^)\s]*)\)|(?:src|srcset)=\"([^\"]+)\"")


def without_code(text: str) -> str:
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def headings(page: pathlib.Path) -> typing.Set[str]:
    """The anchors that GitHub gives to the headings."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def main() -> int:
    start = pathlib.Path(sys.argv[1])
    given = [pathlib.Path(name) for name in sys.argv[2:]]
    pages = [page for g in given for page in (sorted(g.rglob("*.md")) if g.is_dir() else [g])]
    broken, leads = 0, {}
    for page in {start, *pages}:
        leads[page.resolve()] = set()
        for link in (a or b for a, b in LINK.findall(without_code(page.read_text()))):
            name, _, anchor = link.partition("#")
            if "://" in link:
                continue
            target = (page.parent / name).resolve() if name else page.resolve()
            if not target.exists():
                print(f"{page}: {name} is not there")
                broken += 1
            elif anchor and anchor not in headings(target):
                print(f"{page}: {name} has no heading #{anchor}")
                broken += 1
            leads[page.resolve()].add(target)
    reached, todo = set(), [start.resolve()]
    while todo:
        page = todo.pop()
        if page not in reached:
            reached.add(page)
            todo += leads.get(page, ())
    for page in pages:
        if page.resolve() not in reached:
            print(f"{page}: no chain of links leads here from {start}")
            broken += 1
    print(f"{len(pages)} pages, {broken} broken links")
    return broken > 0


if __name__ == "__main__":
    sys.exit(main())
