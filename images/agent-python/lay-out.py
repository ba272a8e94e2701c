"""Lays out a root that holds the Python that runs this and no more: lay-out.py DIR [PACKAGES...].

PACKAGES are folders of its module path that are to be in it too, with the libraries they link. All
that is copied is named here, so that a package of the base image reaches the result only where
someone wants it to. Files lose their owner and every bit but read, write and execute.
"""

import glob
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import sysconfig

ROOT, *PACKAGES = map(pathlib.Path, sys.argv[1:])
STDLIB = pathlib.Path(sysconfig.get_path("stdlib"))
# Installers, compilers' front ends, windows, and the library's own tests.
LEFT_OUT = [
    "__phello__", "dist-packages", "distutils", "ensurepip", "idlelib", "lib2to3", "pip",
    "site-packages", "test", "tests", "tkinter", "turtle.py", "turtledemo", "venv", "config-*",
    "_tkinter*", "EXTERNALLY-MANAGED",
]  # fmt: skip


def copy(source, target=None):
    """A file, by its content, under the real name of the folder it is asked for in."""
    source = pathlib.Path(source)
    target = target or source.parent.resolve() / source.name
    placed = ROOT / target.relative_to("/")
    placed.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, placed)
    placed.chmod(0o755 if os.access(source, os.X_OK) else 0o644)


def copy_tree(source, left_out=()):
    ignored = shutil.ignore_patterns(*left_out)
    for folder, folders, files in os.walk(source, followlinks=True):
        skipped = ignored(folder, folders + files)
        folders[:] = [name for name in folders if name not in skipped]
        for name in set(files) - skipped:
            copy(pathlib.Path(folder, name))


def link(name, to):
    placed = ROOT / str(name).lstrip("/")
    placed.parent.mkdir(parents=True, exist_ok=True)
    if not placed.exists():
        placed.symlink_to(to)


def write(name, text):
    placed = ROOT / name
    placed.parent.mkdir(parents=True, exist_ok=True)
    placed.write_text(text)


def libraries(programs):
    """What the loader maps for them: the paths in the lines of ldd, itself among them."""
    found = set()
    for program in programs:
        said = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
        if "not found" in said:
            sys.exit(f"lay-out: {program} lacks a library:\n{said}")
        found.update(word for word in said.split() if word.startswith("/"))
    return found


def main():
    ROOT.mkdir()
    for name in ("bin", "lib", "lib64", "sbin"):  # as in the base, where they are one with /usr's
        if os.path.islink(f"/{name}"):
            (ROOT / "usr" / name).mkdir(parents=True)
            link(name, f"usr/{name}")

    interpreter = pathlib.Path(sys.executable).resolve()
    copy(interpreter)
    link(interpreter.parent / "python3", interpreter.name)
    link(interpreter.parent / "python", interpreter.name)
    copy_tree(STDLIB, LEFT_OUT)
    modules = list(STDLIB.glob("lib-dynload/*.so"))
    for folder in PACKAGES:
        copy_tree(folder)
        modules.extend(folder.rglob("*.so"))
    loaded = libraries([interpreter, *modules])
    for library in loaded:
        copy(library)
    # Threads that are cancelled need it, and the C library loads it only then.
    libc = next(path for path in loaded if "/libc.so" in path)
    for library in glob.glob(os.path.dirname(libc) + "/libgcc_s.so.1"):
        copy(library)

    certificates = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
    copy(certificates)
    paths = ssl.get_default_verify_paths()
    link(paths.openssl_cafile, certificates)
    configuration = os.path.join(os.path.dirname(paths.openssl_cafile), "openssl.cnf")
    for name in (configuration, "/etc/mime.types"):
        if os.path.exists(name):
            copy(name)
    for name in ("/usr/share/zoneinfo", "/usr/lib/locale/C.utf8"):
        copy_tree(name)

    write("etc/passwd", "root:x:0:0:root:/:/nonexistent\n"
          "nobody:x:65534:65534:nobody:/workspace:/nonexistent\n")  # fmt: skip
    write("etc/group", "root:x:0:\nnogroup:x:65534:\n")
    write("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
    for name in ("workspace", "tmp", "input", "output"):
        (ROOT / name).mkdir()
        (ROOT / name).chmod(0o1777 if name in ("workspace", "tmp") else 0o755)


main()
