"""Makes and judges container images, as dockerTools makes them, with Python's tarfile alone.

    image.py make IMAGE DIGEST|FIXED WITHOUT|DATABASE LAYER…   an image with a layer of each directory LAYER
    image.py judge BEFORE AFTER LABEL                          one line for each thing that is wrong, and how many layers changed
    image.py unpack IMAGE DIR                                  what its layers hold, one over the other
    image.py docker BEFORE AFTER                               as Docker's archives are since 25: OCI's index beside manifest.json
    image.py damage BEFORE AFTER HOW                           an image with one thing wrong in it
"""

import hashlib, io, json, os, sys, tarfile


def layer_of(directory, database):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for top, dirs, files in os.walk(directory):
            dirs.sort()
            for name in sorted(dirs + files):
                path = os.path.join(top, name)
                info = tar.gettarinfo(path, arcname="/" + os.path.relpath(path, directory))
                info.mtime, info.uid, info.gid, info.uname, info.gname = 1, 7, 8, "", ""
                if info.isfile():
                    info.pax_headers = {"SCHILY.xattr.user.note": "kept", "comment": "a long one: " + "é" * 90}
                    with open(path, "rb") as f:
                        tar.addfile(info, f)
                else:
                    tar.addfile(info)
        if database:
            tar.addfile(tarfile.TarInfo("nix/var/nix/db/db.sqlite"))
    return out.getvalue()


def make(image, form, database, *directories):
    mode = "w:gz" if image.endswith("gz") else "w"
    with tarfile.open(image, mode) as tar:

        def add(name, data):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))

        layers, names = [], []
        for i, directory in enumerate(directories):
            data = layer_of(directory, database == "DATABASE" and i == 0)
            layers.append(hashlib.sha256(data).hexdigest())
            names.append((layers[-1] if form == "DIGEST" else f"layer-{i}") + "/layer.tar")
            add(names[-1], data)
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": ["/nix/store/p/bin/p"], "Labels": {"other": "stays"}},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + l for l in layers]},
            "history": [{"comment": "a"} for _ in layers],
        }
        text = json.dumps(config, indent=4).encode()
        name = hashlib.sha256(text).hexdigest() + ".json"
        add(name, text)
        add("manifest.json", json.dumps([{"Config": name, "RepoTags": ["p:1"], "Layers": names}]).encode())


def read(image):
    with tarfile.open(image) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}
    (manifest,) = json.loads(files["manifest.json"])
    return files, manifest, json.loads(files[manifest["Config"]])


def members(layer):
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        return [
            (m.name, m.mode, m.uid, m.gid, m.mtime, m.type, m.linkname, m.pax_headers.get("SCHILY.xattr.user.note"))
            for m in tar
        ]


def judge(before, after, label):
    old, m, c = read(before)
    new, n, d = read(after)
    wrong = []
    if hashlib.sha256(new[n["Config"]]).hexdigest() not in n["Config"]:
        wrong.append("the configuration's name is not its digest")
    if len(new) != len(old) - sum(n in ("index.json", "oci-layout") or n == "blobs/sha256/manifest" for n in old):
        wrong.append("an entry more or less")
    ids = d["rootfs"]["diff_ids"]
    changed = 0
    for i, (was, now) in enumerate(zip(m["Layers"], n["Layers"], strict=True)):
        digest = hashlib.sha256(new[now]).hexdigest()
        if ids[i] != "sha256:" + digest:
            wrong.append(f"{now}: its digest is not the configuration's")
        if hashlib.sha256(old[was]).hexdigest() in was and digest not in now:
            wrong.append(f"{now}: its name is not its digest")
        if (old[was] == new[now]) != (c["rootfs"]["diff_ids"][i] == ids[i]):
            wrong.append(f"{now}: changed, and the digest is not, or the other way round")
        if old[was] != new[now]:
            changed += 1
            if members(old[was]) != members(new[now]):
                wrong.append(f"{now}: another list of files")
    labels = d["config"].pop("Labels", {})
    if changed and labels.pop("cuda-runpath.thinned-for", None) != label:
        wrong.append("no label, or another")
    if changed and "copy nothing out of" not in labels.pop("cuda-runpath.store", ""):
        wrong.append("no label says that the store's paths have another content")
    if labels != c["config"].pop("Labels"):
        wrong.append("other labels are gone")
    for each in (c, d):
        each["rootfs"].pop("diff_ids")
    if c != d:
        wrong.append("something else of the configuration changed")
    print(*wrong, f"{changed} of {len(ids)} changed", sep="\n")


def unpack(image, directory):
    files, manifest, _ = read(image)
    for name in manifest["Layers"]:
        with tarfile.open(fileobj=io.BytesIO(files[name])) as tar:
            for m in tar:
                m.name = m.name.lstrip("/")
                m.uid, m.gid = os.getuid(), os.getgid()
                tar.extract(m, directory)


def write(image, files):
    with tarfile.open(image, "w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def docker(before, after):
    files, m, _ = read(before)
    names = {n: "blobs/sha256/" + hashlib.sha256(files[n]).hexdigest() for n in [m["Config"], *m["Layers"]]}
    out = {names[n]: files[n] for n in names}
    out["blobs/sha256/manifest"] = out["index.json"] = json.dumps({"config": names[m["Config"]]}).encode()
    out["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    m.update(Config=names[m["Config"]], Layers=[names[n] for n in m["Layers"]])
    write(after, out | {"manifest.json": json.dumps([m]).encode()})


def damage(before, after, how):
    files, m, c = read(before)
    first, ids = m["Layers"][0], c["rootfs"]["diff_ids"]
    if how in ("flipped", "unchanged"):  # in a layer that is thinned, or in one that is not
        name = first if how == "flipped" else m["Layers"][1]
        b = bytearray(files[name])
        b[600 if how == "unchanged" else len(b) // 2] ^= 1
        files[name] = bytes(b)
    elif how == "short":
        files[first] = files[first][: len(files[first]) // 1024 * 512]
    elif how == "swapped":
        ids[0], ids[1] = ids[1], ids[0]
    elif how == "fewer":
        ids.pop()
    elif how == "none":
        del c["rootfs"]["diff_ids"]
    files[m["Config"]] = json.dumps(c).encode()
    write(after, files)


{"make": make, "judge": judge, "unpack": unpack, "docker": docker, "damage": damage}[sys.argv[1]](*sys.argv[2:])
