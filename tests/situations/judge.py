"""Asks the commands about a situation, and compares what they say with what the process did.

A command is wrong where
- the process dies at its start, or what it calls fails, and the command names no error for it;
- a library that the process opens cannot be opened, and the command does not name what is missing, at any severity; the same for a
  function that is bound late and then not found, or not by the version that is needed;
- the situation says of which names something has to be said ($because), and the command has not one of them;
- it names an error where the process is fine (of audit and noRunpathAmbiguity: of a file that is in this process, and about its load);
- explain resolves a name to another file, leaves a file out that is loaded, or lists one that is not (of several that it says a name
  leads to, each under a condition that no file shows, one has to be);
- explain says of a file that somebody else needs it, or that another rule found it, than glibc's own account does (LD_DEBUG);
- of two commands one names an error and the other exits 0 without a word of it (said only where neither is wrong already).

What is not held against them, and counted apart: of a plugin, functions whose owner is not known from their names (its opener may
have them); what a situation says that no file shows ($limit), as flags that are computed; of noRunpathAmbiguity, whose page says that
it looks for ambiguity, stubs and the order of entries alone, everything else but the driver's functions; of audit, what depends on the
driver that the host has, of which its page says that it is a warning or a note: driver-absent, and compat-harms.

Nor these: audit and noRunpathAmbiguity are asked about a directory and cannot know variables that are set by hand, so they are
compared with the process without these; of doctor, only what it says beyond what it says of the host without a program counts, and
what it says for the case that the program did what it does not do ("if it opened it") is no error. explain is asked with
--undefined, whose status 1 for functions that are bound late and not called is no error either."""
import json
import os
import re
import subprocess

DRIVER_CALL = re.compile(r"cu(?!File)[A-Z]\w+|nvml[A-Z]\w+")
KNOWN_CALL = re.compile(r"(cu[A-Z]|nvml|cuda[A-Z]|cublas|cudnn|cufft|curand|cusparse|cusolver|cutensor|nvrtc|nvJitLink|npp|nccl)\w+")
# Errors that are about what is wrong with a run path, however well it loads today; every other one is about the load.
HYGIENE = {"ambiguous-library", "build-directory-entry", "build-directory-needed", "driver-before-compat", "empty-entry",
           "mangled-entry", "note-bypasses-driver", "note-names-stub", "relative-entry", "relative-needed", "stub-entry", "unknown-token",
           "world-writable-entry"}
MESSAGES = (r"([^\s:/]+): cannot open shared object file", r"Error loading shared library (\S+):", r"version `([^']+)' not found",
            r"undefined symbol: (\w+)", r"Error relocating \S+: (\w+): symbol not found", r"([^\s:/]+): (?:invalid ELF|file too short|wrong ELF|"
            r"ELF file|cannot enable executable|cannot allocate memory in static TLS|cannot dynamically load|shared object cannot|"
            r"cannot read file|failed to map|no version information)", r"\blibrary (\S+)", r"Could not find.*?(\S+\.so\S*)")


class Claim:
    """What a command said: its status; errors, a list of texts; said, everything that is wrong by it at any severity."""

    def __init__(self, command, argv, start, base, env=None):
        self.command, self.argv = command, argv
        done = subprocess.run(argv, cwd=start.directory, env={**base, **(env or {})}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", timeout=60)
        self.status, self.stderr = done.returncode, done.stderr.strip()
        try:
            self.document = json.loads(done.stdout)
        except ValueError:
            self.document = {}
        self.errors, self.said, self.files, self.told = [], [], {}, []
        if not self.document or self.status not in (0, 1):
            self.errors.append(f"status {self.status}: {self.stderr[:200]}")

    def error(self, text, file=None):
        self.errors.append(text)
        self.said.append(text)
        self.files[text] = file

    def tell(self, text, file, remedy):
        """Keep what was said, of which file, with the command that is its remedy, if there is one."""
        self.told.append((text, file, remedy))

    def names(self, tokens, texts):
        return any(re.search(r"(?<![\w.+-])" + re.escape(token) + r"(?![\w+-]|\.\w)", text) for token in tokens for text in texts)

    def __str__(self):
        return f"== {' '.join(self.argv)}\nstatus {self.status}\n" + "\n".join(f"  {'error' if t in self.errors else 'says'}: {t}"
                                                                          for t in dict.fromkeys(self.errors + self.said))


def explain(start, base):
    env = [w for name, value in start.env.items() for w in ("--env", f"{name}={value}")]
    gpu = ["--for", start.gpu] if start.gpu else []
    claim = Claim("explain", ["runpath", "explain", "--json", "--undefined"] + gpu + env + ["--", start.asked], start, base)
    claim.libraries, claim.instead = {}, {}
    for file in claim.document.get("files", []):
        for text in [file.get("reason"), file.get("error")]:
            if text:
                claim.error(text)
        for library in file.get("libraries", []):
            path, why = library["path"], library.get("error")
            if path is None:
                why = why or f"{library['soname']} is not found"
            lacks = [f"{library['soname']}: {' '.join(map(str, lack.values()))}" for lack in library.get("lacks", [])]
            for text in ([why] if why else []) + lacks:
                (claim.error if claim.status else claim.said.append)(f"{library['soname']}: {text}")
            if not library.get("namespace"):
                claim.instead.setdefault(path, set()).update(other["path"] for other in library.get("instead", []))
                claim.libraries.setdefault(library["soname"], []).append((path, why, library["cause"]))
        for lack in file.get("lacks", []):
            claim.error(" ".join(map(str, lack.values())))
        for verdict in file.get("driver", []):
            if not verdict["good"]:
                claim.error(verdict["text"])
                claim.tell(verdict["text"], None, verdict.get("command"))
        claim.said += [f"{symbol['symbol']} is undefined" for symbol in file.get("undefined", [])]
        for finding in file.get("findings", []):
            if finding["id"].startswith("gpu-code"):  # with its library below
                continue
            text = f"{finding['id']}: {finding['message']}"
            (claim.error if claim.status and finding["severity"] == "error" and finding["id"] not in HYGIENE else claim.said.append)(text)
            claim.tell(text, None, finding.get("command"))
        for code in file.get("gpu_code", []):
            (claim.error if code["id"] == "gpu-code-missing" else claim.said.append)(f"{code['id']}: {code['text']} ({os.path.basename(code['path'])})")
    undefined = any(file.get("undefined") for file in claim.document.get("files", []))  # with --undefined these alone are status 1
    if claim.status and not claim.errors and not undefined:
        claim.error(claim.stderr or "status 1")
    return claim


def findings(command, argv, start, base):
    claim = Claim(command, argv, start, base)
    for file in claim.document.get("files", []):
        path = os.path.realpath(os.path.join(start.directory, file["path"]))
        if file.get("action") == "failed":
            claim.error(f"{file.get('reason')}", path)
        for finding in file.get("findings", []):
            text = f"{finding['id']}: {finding['message']}"
            if finding["id"].startswith("gpu-code"):  # whose subject is the file, or what that loads
                text += f" ({finding.get('library') or os.path.basename(path)})"
            if finding["severity"] == "error":
                claim.error(text, path)
            else:
                claim.said.append(text)
            claim.tell(text, path, finding.get("command"))
    return claim


def doctor(start, base):
    # of an emulator that is given the program nobody else knows
    emulated = ["--machine", "aarch64"] if start.argv[0] == "qemu-aarch64" else []
    host = Claim("doctor", ["hostDriver", "doctor", "--json", "--for", start.gpu or "9.0"] + emulated, start, base)
    claim = Claim("doctor", host.argv + [start.asked], start, base, start.env)
    known = {(fact["subject"], fact["text"]) for fact in host.document.get("facts", [])}
    claim.status = 0
    for fact in claim.document.get("facts", []):
        text = f"{fact['subject']}: {fact['text']}"
        if (fact["subject"], fact["text"]) in known or fact["subject"] in ("kernel module", "driver libraries", "device nodes", "GPU", "driver link") \
                or fact["text"] == "its loader is musl's" \
                or fact["text"].startswith("is for another machine (EM_S390)"):  # the driver cannot work in it: doctor's question, not ours
            continue
        if fact["verdict"] == "bad" and fact["text"].startswith("(if "):  # the process is known not to
            claim.said.append(text)
        elif fact["verdict"] == "bad":
            claim.status = 1
            claim.error(text)
        elif fact["verdict"] in ("warning", "note"):
            claim.said.append(text)
        if fact["verdict"] != "ok":
            claim.tell(text, None, fact.get("command"))
    return claim


def ask(start, base):
    gpu = ["--for", start.gpu] if start.gpu else []
    claims = [explain(start, base), findings("audit", ["runpath", "audit", "--json"] + gpu + ["."], start, base),
              findings("noRunpathAmbiguity", ["noRunpathAmbiguity", "--json", "."], start, base), doctor(start, base)]
    if start.gpu:
        claims.append(findings("gpu", ["runpath", "gpu", "--json", "--for", start.gpu, "."], start, base))
    return claims


def tokens(message):
    """What a message of the loader is about: a library, a version, a symbol."""
    return {os.path.basename(found) for pattern in MESSAGES for found in re.findall(pattern, message)}


def truths(process, because):
    """What a command has to say of the process: (what, tokens, must it be an error, is it about a symbol)."""
    found = []
    for opened in process.opens:
        if opened.path is None:
            about = tokens(opened.message)
            found.append((f"cannot open {process.short(opened.name)}", about | {os.path.basename(opened.name)} if not about else about,
                          False, "symbol" in opened.message))
    if because:
        found.append((f"nothing of {because}", set(because.split()), False, False))
    if process.status:
        about = tokens(process.message)
        if process.states and not process.message:
            about = {"libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1"} & {os.path.basename(path) for path in process.last()}
        late = bool(process.states) and any(of in process.message for of in ("symbol lookup error", "dl-lookup.c: "))
        what = f"status {process.status}" if process.states and not late else "the process dies"
        if about or process.message or not process.states:  # else it is the program's own answer
            found.append((what + (f" ({min(about)})" if about else ""), about, not late, "symbol" in process.message))
    return found


def unsaid(claim, true, start, process):
    """What the command had to say and does not, and how much of that it says that it does not look at."""
    missed, unseen = [], 0
    for what, about, severe, symbol in true:
        if severe:
            named = claim.errors and (not about or claim.names(about, claim.errors))
            named = named or symbol and claim.status and claim.names(about, claim.said)  # explain --undefined
        else:
            named = claim.names(about, claim.said + claim.errors)
        foreign = symbol and process.opens and not any(map(KNOWN_CALL.fullmatch, about))  # the opener may have it
        elsewhere = claim.command == "gpu" and not what.startswith("nothing of") or claim.command == "noRunpathAmbiguity" and not (
            symbol and any(map(DRIVER_CALL.fullmatch, about)))
        of_host = claim.command == "audit" and claim.names(about, [t for t in claim.said if t.startswith(("driver-absent:", "compat-harms:"))])
        if not named and (start.limit or foreign or elsewhere or of_host):
            unseen += 1
        elif not named:
            missed.append(f"says nothing: {what}")
    return missed, unseen


def alarms(claim, start, process):
    """The errors that are about this process and its load."""
    involved = process.loaded() | {os.path.realpath(os.path.join(start.directory, start.asked))}
    return [text for text in claim.errors if claim.command not in ("audit", "noRunpathAmbiguity", "gpu")
            or text.split(":")[0] not in HYGIENE and claim.files.get(text) in involved]


def judge(start, process, bare, claims, base):
    """What each command says wrong, by its name, and the commands that say nothing of what they do not look at."""
    wrong, unseen, alarming = {}, [], {}
    for claim in claims:
        real = bare if claim.command in ("audit", "noRunpathAmbiguity", "gpu") else process
        true = truths(real, start.because)
        said, count = unsaid(claim, true, start, real)
        unseen += [claim.command] * count
        alarming[claim.command] = alarms(claim, start, real)
        false = [text for text in alarming[claim.command] if not claim.names(start.because.split(), [text])]
        if false and not real.status and all(what.startswith("nothing of") for what, *_ in true):
            said.append(f"an error, and the process is fine: {real.short(false[0])}"[:160])
        if claim.command == "explain" and real.states:
            said += compare(claim, real)
        if claim.command == "explain" and not said:
            said += searches(claim, start, real, base)
        if said:
            wrong[claim.command] = "; ".join(said)
    if not start.env:  # else they were not asked about the same start
        for one in claims:
            about = {name for text in alarming[one.command] for name in re.findall(r"[\w+.-]+\.so[\w.]*", text)}
            for other in claims:
                if about and other.command in ("explain", "audit", "doctor") and not (other.status or other.errors) \
                        and not other.names(about, other.said) and not {one.command, other.command} & set(wrong):
                    wrong[other.command] = f"contradicts {one.command}: {process.short(alarming[one.command][0])}"[:160]
    return wrong, unseen


RULES = {"RPATH": "DT_RPATH", "RUNPATH": "DT_RUNPATH", "LD_LIBRARY_PATH": "LD_LIBRARY_PATH", "system search path": "default directories"}


def loaders_account(start, base):
    """By glibc's own LD_DEBUG: for each name that was searched and found, the file, the rule, and who needed it."""
    done = subprocess.run(start.argv, cwd=start.directory, env={**base, **start.env, "LD_DEBUG": "libs,files"}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60)
    found, name, tried, rule, asker = {}, None, None, None, None
    for line in done.stderr.decode(errors="replace").splitlines():
        line = re.sub(r"^\s*\d+:\s+", "", line)
        if asked := re.fullmatch(r"file=(.*) \[0\];  (?:needed|dynamically loaded) by (.*) \[0\]( \(relocation dependency\))?", line):
            name, asker = asked[1], asked[2]
            tried, rule = (name, "path") if "/" in name else (None, None)
        elif line.startswith("search cache="):
            rule = "ld.so.cache"
        elif path := re.search(r"\t\((RPATH|RUNPATH|LD_LIBRARY_PATH|system search path)[^)]*\)$", line):
            rule = RULES[path[1]]
        elif line.startswith("trying file="):
            tried = line.partition("=")[2]
        elif line.endswith("generating link map") and name and tried:
            found.setdefault(name, (tried, rule, asker or start.asked))
    return found


def searches(claim, start, process, base):
    """What explain says of who needs a library and how it is found, against the loader's own account; glibc's programs of this machine."""
    with open(os.path.join(start.directory, start.asked), "rb") as file:
        contents = file.read()
    if start.argv != [start.asked] or contents[:4] != b"\x7fELF" or b"makeCWrapper" in contents:  # a wrapper's account has two processes
        return []
    real = lambda path: os.path.realpath(os.path.join(start.directory, path))
    for name, (path, rule, asker) in loaders_account(start, base).items():
        several = [library for file in claim.document.get("files", []) for library in file.get("libraries", [])
                   if library["soname"] == name and library["path"]]
        several += [other for library in several for other in library.get("instead", [])]
        said = {(real(library["path"]), library["rule"], real(library["needed_by"] or start.asked)) for library in several}
        truth = real(path), rule, real(asker)
        if several and truth not in said and "$" not in name:  # a token, which this account does not expand
            told, differs = min(said), [n for n in range(3) if all(s[n] != truth[n] for s in said)] or [0]
            return [f"says of {name}: {process.short(told[differs[0]])}, the loader: {process.short(truth[differs[0]])}"]
    return []


def compare(claim, process):
    """What explain says is loaded, against what was."""
    said = []
    listed = {os.path.join(process.directory, path) for several in claim.libraries.values() for path, why, _ in several if path and not why}
    listed = {os.path.realpath(path) for path in listed if process.own(path)}
    if process.program and process.own(process.program):
        listed.add(os.path.realpath(process.program))
    loaded = process.loaded()
    real = lambda path: os.path.realpath(os.path.join(process.directory, path))
    for path, others in claim.instead.items():  # one of them is loaded, and it is said when
        if others := {real(other) for other in others} & loaded:
            listed = listed - {real(path)} | others | ({real(path)} & loaded)
    said += [f"does not list {process.short(path)}" for path in sorted(loaded - listed)]
    if all(opened.path is not None for opened in process.opens) and process.status == 0:
        said += [f"lists {process.short(path)}, which is not loaded" for path in sorted(listed - loaded)]
    for opened in process.opens:
        if opened.path is not None and claim.libraries.get(opened.name) and all(why for _, why, _ in claim.libraries[opened.name]):
            said.append(f"says that {opened.name} cannot be opened")
    return said
