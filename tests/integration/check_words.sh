#!/bin/bash
# Checks the English of comments, messages and pages: words that this tree does not use, first lines that do not say what a
# file does, comments of public functions that lean on others, torn lists, and text that belongs to one machine or to the way in
# which the code was written.
#   check_words.sh SOURCE_DIR [--doubtful]
# Each finding is printed as "file:line: word -> what to write". tests/integration/words_allowed.txt lists the exceptions.
# --doubtful prints also what is often unclear but not always wrong; only the other findings make the check fail.
set -eu
cd "$1"
exec python3 - "${2-}" <<'END_OF_PYTHON'
import collections, fnmatch, os, re, subprocess, sys

# A pattern, what to write instead, and (optionally) the paths to which the rule applies. Patterns ignore case, except those
# that begin with (?-i:...), and a space in them matches any white space, line breaks within a comment included.
WORDS = [
    # The field's terms.
    (r"\b(first|second|third)([- ]level)? caches?\b", "L1 cache, L2 cache, L3 (last-level) cache"),
    (r"\b(past|around) the caches?\b", "a non-temporal (streaming) store, or: bypasses the caches"),
    (r"\bask(s|ed|ing)? (for|that)\b", "request, require, need; prefetch"),
    (r"\b(an?|one|each|every|per|this|no|the same|the next|the last|longer|K) turns?\b|\bturns? of (the|a|its) (\w+ )?loop\b",
     "iteration, unrolled iteration, unroll factor", r"^(dsl|jit/(base|passes|emit|cpu|gpu))/"),
    (r"\b(by|in) turns\b|\bturn by turn\b", "alternately, round-robin"),
    (r"\bpartings?\b", "divergence, lane mask"),
    (r"(?<!in[- ])\bflights?\b(?! number)", "asynchronous operation"),
    (r"\b(meets?|met|meeting)\b(?! (the|all|these|those|its|a|an) (\w+ )?(requirement|condition|constraint|criteri|bound|deadline|target))",
     "alias, overlap, reach, encounter, occur together"),
    (r"\bof few (rows|columns|elements|lanes|tiles)\b", "skinny, small; with few rows"),
    (r"\bbeside\b", "next to; besides, in addition to; compared with"),
    # Persons where there is none, and verbs for persons.
    (r"\b(nobody|somebody|anybody|everybody)\b", "no caller, no thread, nothing; another process; the user (name the actor)"),
    (r"\b(tells?|telling|told)\b", "report, show, detect, diagnose; distinguish (for: tell apart)"),
    (r"(?<=[.;:]\s)\s*who (?![^.;:]*\?)", "name the actor: the caller that ..., a thread that ..."),
    (r"(?<=[.;:]\s)\s*whoever\b", "name the actor: the caller that ..., any thread that ..."),
    # Words that are rare, old or poetic.
    (r"\banew\b", "again"),
    (r"\bamid\b", "during, among"),
    (r"\bbut for\b|\bsave for\b", "except"),
    (r"\b(lest|withal|whither|whence|whereof|thereof|therein|hereby|wherein)\b", "a plain word"),
    (r"\bin vain\b", "for nothing, without effect"),
    # Machines and package hosts.
    (r"(?-i:/(work|root|mnt|Users|workspace)/\w)", "a path relative to the tree"),
    (r"(?-i:/home/(?!someone\b)\w)", "a path relative to the tree"),
    (r"(?-i:/tmp/)(?!perf-)", "a temporary folder of the program's own (mktemp, $TMPDIR)"),
    (r"\b(deb\.debian\.org|apt\.llvm\.org|archive\.ubuntu\.com|ppa\.launchpad|pypi\.(org|python)|pythonhosted\.org|anaconda\.org|"
     r"download\.pytorch\.org|developer\.download\.nvidia|nvcr\.io|registry\.npmjs|crates\.io|ghcr\.io|docker\.(io|com)|quay\.io|"
     r"proxy\.golang|huggingface\.co|conda-forge)\b", "the package's name alone"),
    # The way in which the code was written.
    (r"\bsessions?\b", "run, process"),
    (r"\b(issue|ticket|milestone|task|PR|pull request) #?\d{1,4}\b", "the reason itself"),
    (r"(?-i:\b(CEO|CTO|AI|LLMs|ChatGPT|Claude|Copilot)\b)", "nothing: the tree speaks of Kiln alone"),
    (r"\b(the|a) (reviewer|boss|assistant|chatbot|prompt)\b", "nothing: the tree speaks of Kiln alone"),
    (r"(?-i:\b(STYLE|DESIGN)\b(\.md)?)", "a document of this tree (CONTRIBUTING.md, ARCHITECTURE.md)"),
    (r"(?-i:\b(TODO|FIXME|XXX)\b)", "what is missing, as a statement"),
]
# Often unclear: only printed with --doubtful.
DOUBTFUL = [
    (r"(?-i:(?<=[.\n\0]\s)\s*What )(?![^.]*\?)", "a noun as the subject: the value that ..., the bytes that ..."),
    (r"(?-i:(?<=[.;\0]\s)\s*Those) (of|that|with|for|which)\b", "repeat the noun: tests that ..., kernels of ..."),
    (r"\basks?\b(?! (for|that))", "query, call, request"),
    (r"\bat hand\b", "current, given"),
    (r"\bwants?\b", "need, require, expect"),
    (r"\bof no use\b|\bof use\b", "useless, useful"),
    (r"\bso many\b", "a named number: `count` bytes, at most N"),
    (r"\b(someone|no one|everyone|whoever)\b", "name the actor"),
    (r"\bnot for users\b", "internal (say which headers are public, once)"),
    (r"\b(hears?|heard)\b", "receive, be notified"),
    (r"\bwhatever\b", "any, regardless of"),
    (r"\b(bears?|bore|suffices?|dear)\b", "tolerate; be enough; expensive"),
]

# Data, tables of results, and code of other authors.
FOREIGN = ("benchmarks/results/", "benchmarks/tables/", "tests/jit/emulator/triton/ptx/", "LICENSE",
           "tests/integration/check_words.sh", "tests/integration/words_allowed.txt")
BINARY = (".png", ".gz", ".svg", ".ptx", ".npy")

doubtful = sys.argv[1:] == ["--doubtful"]
tracked = subprocess.run(["git", "ls-files", "-z"], capture_output=True)
if tracked.returncode != 0:
    print("skipped: the source tree is not a git checkout, or git is not installed")
    sys.exit(77)
files = [path for path in tracked.stdout.decode().split("\0")
         if path and not path.startswith(FOREIGN) and not path.endswith(BINARY) and os.path.isfile(path)]

c_like = re.compile(r"\.(h|cpp|cu|cuh|js|def|inc|kir|css)$")
hash_like = re.compile(r"\.(sh|py|cmake)$|(^|/)(CMakeLists\.txt|run|\.clang-tidy)$")
c_tokens = re.compile(r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)

def blank(text):
    return re.sub(r"[^\n]", "\0", text)

# The comments and strings of a file, on the lines where they are, with a zero byte for what lies between them. The marks that
# separate the lines of one comment or of one long string become white space, so that phrases are found across lines.
def prose_of(path, text):
    if path.endswith(".kir"):  # tile IR and FileCheck lines, whose comments stand alone
        return re.sub(r"\n//+ ", "\n ", text)
    if c_like.search(path):
        parts, end = [], 0
        for token in c_tokens.finditer(text):
            parts.append(blank(text[end:token.start()]))
            skipped = token[0][0] == "'" or text[:token.start()].endswith("#include ")
            parts.append(blank(token[0]) if skipped else token[0])
            end = token.end()
        text = "".join(parts) + blank(text[end:])
        text = re.sub(r"\n\0* *//+", "\n ", re.sub("\0+", "\0", text))
        return re.sub(r'"(\n)\0*"', r" \1 ", text)
    if hash_like.search(path):
        return re.sub(r"\n *#+ ", "\n ", text)
    return text

class Allowed:
    """An exception: a path (with wildcards), text that the line contains, and the reason."""
    def __init__(self, number, path, text):
        self.number, self.path, self.text, self.used = number, path, text, False

allowed = []
failures = collections.Counter()
findings = []  # of one file: a line and what is printed about it
def note(path, number, what):
    failures[path] += 1
    findings.append((number, f"{path}:{number}: {what}"))
def print_findings():
    for _, finding in sorted(findings):
        print(finding)
    findings.clear()

list_of_allowed = "tests/integration/words_allowed.txt"
with open(list_of_allowed, encoding="utf-8") as file:
    for number, line in enumerate(file, 1):
        if line.startswith("#") or not line.strip():
            continue
        match = re.fullmatch(r"(\S+): (.+) ## (.+)", line.rstrip("\n"))
        if match:
            allowed.append(Allowed(number, match[1], match[2]))
        else:
            note(list_of_allowed, number, "a line is PATH: TEXT OF THE LINE ## REASON")

def is_allowed(path, line):
    found = [a for a in allowed if a.text in line and fnmatch.fnmatchcase(path, a.path)]
    for a in found:
        a.used = True
    return bool(found)

def compiled(rules):
    spaces = re.compile(r"\[[^\]]*\]| ")  # not those in brackets
    return [(re.compile(spaces.sub(lambda m: r"\s+" if m[0] == " " else m[0], rule[0]), re.I), rule[1],
             re.compile(rule[2] if len(rule) > 2 else "")) for rule in rules]

# One pattern for all rules that begin with a whole word: most files have nothing that fits it, which saves most of the time.
def any_of(rules):
    return re.compile(r"(?<!\w)(?:" + "|".join(rule[0].pattern.removeprefix(r"\b") for rule in rules) + ")", re.I)

def first_words(path, text):
    """The first sentence of the comment with which a file begins; None if it begins with something else."""
    lines = text.split("\n")
    if lines and lines[0].startswith("#!"):
        lines = lines[1:]
    if path.endswith(".kir"):
        lines = [line for line in lines if not re.match(r"// *(RUN|REQUIRES|UNSUPPORTED|XFAIL)\b|// *[-|]", line)]
    mark = "#" if hash_like.search(path) else "//"
    if path.endswith(".py") and lines and lines[0].startswith('"""'):
        lines = [mark + " " + line.strip('"') for line in lines]
    if lines and lines[0].startswith("/*"):
        lines = [mark + " " + line.strip("/* ") for line in lines[:10]]
    comment = []
    for line in lines:
        if not line.startswith(mark):
            break
        comment.append(line.lstrip(mark).strip())
    return re.split(r"\.(?=\s|$)", " ".join(comment))[0] if comment else None

words = [rule for rule in compiled(WORDS) if rule[0].pattern.startswith(r"\b")]
others = [rule for rule in compiled(WORDS) if rule not in words]
any_word = any_of(words)
doubts = 0
for path in files:
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    lines = text.split("\n")
    prose = prose_of(path, text)
    rules = [(rule, True) for rule in (words if any_word.search(prose) else []) + others]
    rules += [(rule, False) for rule in compiled(DOUBTFUL) if doubtful]
    for (pattern, instead, where), fails in rules:
        if not where.search(path):
            continue
        for match in pattern.finditer(prose):
            word = " ".join(match[0].split()).strip("\0")
            start = match.start() + len(match[0]) - len(match[0].lstrip())
            number = prose.count("\n", 0, start) + 1
            if is_allowed(path, lines[number - 1]):
                continue
            if fails:
                note(path, number, f"{word} -> {instead}")
            else:
                doubts += 1
                findings.append((number, f"{path}:{number}: (doubtful) {word} -> {instead}"))

    # The first line of a file says what the file does, in more than three words.
    if c_like.search(path) or hash_like.search(path):
        first = first_words(path, text)
        if first is None:
            if not is_allowed(path, lines[0]):
                note(path, 1, "no comment -> a first line that says what the file does or holds")
        elif len(first.split()) < 4 and not is_allowed(path, lines[0]):
            note(path, 1, f"{first} -> a whole sentence that says what the file does or holds")

    # In a public header, the comment of each function says by itself what the function does.
    if path.endswith(".h") and re.search(r"^KILN_API_BEGIN", text, re.M):
        for number, line in enumerate(lines, 1):
            first = number == 1 or not re.match(r"\s*(//|\*)", lines[number - 2])
            if first and re.match(r"\s*(//|/\*) *The same\b", line) and not is_allowed(path, line):
                note(path, number, "The same -> what the function does, without another comment")

    # Lists and banners in comments that were filled like text: the next item of a numbered list inside a line, and a banner
    # whose dashes are on another line than its title.
    if c_like.search(path) or hash_like.search(path):
        item = None
        for number, line in enumerate(lines, 1):
            comment = re.match(r"\s*(?://+|#+)\s*(.*)", line)
            if not comment:
                item = None
                continue
            start = re.match(r"(\d+)\. ", comment[1])
            item = int(start[1]) if start else item
            if item and re.search(rf"[.,;:)] +{item + 1}\. +\S", comment[1]) and not is_allowed(path, line):
                note(path, number, f"{item + 1}. inside a line -> each item of a list on a line of its own")
            if re.match(r"--- .*[^-]$", comment[1]) and number < len(lines) and re.match(r"\s*(//|#) *-+$", lines[number]):
                note(path, number, f"{comment[1]} -> the title and its dashes on one line")
    print_findings()

for a in allowed:
    if not a.used:
        note(list_of_allowed, a.number, "this exception is not needed -> remove the line")
print_findings()

if doubts:
    print(f"check_words: {doubts} doubtful places, which do not fail")
if failures:
    folders = collections.Counter()
    for path, count in failures.items():
        parts = path.split("/")
        folders["/".join(parts[:2]) if len(parts) > 2 else parts[0] if len(parts) > 1 else "(top)"] += count
    print(f"check_words: {sum(failures.values())} findings: " + ", ".join(f"{f} {n}" for f, n in sorted(folders.items())))
sys.exit(1 if failures else 0)
END_OF_PYTHON
