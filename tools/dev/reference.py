"""Writes the C reference from the public headers. Usage: reference.py INCLUDE_DIR OUTPUT_DIR

One Markdown page a header: the text at its head, then every declaration under the comment before it.
"""
import pathlib
import re
import sys

SECTION = re.compile(r"// ---- (.*) ----")


def strip_comment(lines: list[str]) -> str:
    return "\n".join(re.sub(r"^// ?", "", line) for line in lines)


def tidy(code: str) -> str:
    return re.sub(r"\bCARNOT_(API|MUST_USE) ?|^extern \"C\" \{$", "", code, flags=re.M).replace(" ;", ";").strip()


def page(header: pathlib.Path) -> str:
    blocks = re.split(r"\n\s*\n", re.sub(r"#ifdef __cplusplus\n.*?#endif[^\n]*\n?", "\n", header.read_text(), flags=re.S))
    out = [f"# {header.name}\n"]
    for index, block in enumerate(blocks):
        lines = [line for line in block.splitlines() if not re.match(r"#(ifndef|define|include|endif|if|else|elif|undef)\b", line)]
        section = lines and SECTION.match(lines[0])
        if section:
            out.append(f"## {section[1]}\n")
            lines = lines[1:]
        comment, code = [], []
        for line in lines:
            if line.startswith("//"):
                if code:
                    flush(out, comment, code)
                    comment, code = [], []
                comment.append(line)
            elif line.strip():
                code.append(line)
        flush(out, comment, code)
    return "\n".join(out)


def flush(out: list[str], comment: list[str], code: list[str]) -> None:
    if code and tidy("\n".join(code)):
        out.append("```c\n" + tidy("\n".join(code)) + "\n```\n")
    if comment:
        out.append(strip_comment(comment) + "\n")


def main() -> int:
    source, target = map(pathlib.Path, sys.argv[1:3])
    target.mkdir(parents=True, exist_ok=True)
    index = ["# C reference\n"]
    for header in sorted(source.glob("*.h")):
        (target / f"{header.stem}.md").write_text(page(header))
        first = re.match(r"// (.*?)(?:\n//\n|\n#)", header.read_text(), flags=re.S)
        summary = re.sub(r"\n// ?", " ", first[1]) if first else ""
        index.append(f"- [{header.name}]({header.stem}.md): {summary}")
    (target / "index.md").write_text("\n".join(index) + "\n")
    print(f"{len(index) - 1} pages in {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
