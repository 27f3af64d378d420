#!/bin/sh
# Makes the virtual environment $1 with the first Python 3.11 or newer that is found; $PYTHON names one to use instead.
# An environment that works is kept. One line on stderr and status 1 when there is no such Python.
set -eu

target=$1

if "$target/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    exit 0
fi

found=""
for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    version=$("$candidate" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) || continue
    if ! "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        found="$found $candidate is $version;"
        continue
    fi
    if ! "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
        found="$found $candidate $version has no venv module (on Debian and Ubuntu: apt-get install python3-venv);"
        continue
    fi
    rm -rf "$target"
    exec "$candidate" -m venv "$target"
done

echo "OME Rollouts needs Python 3.11 or newer with venv:${found:- none found;} install one or name it with PYTHON=python3.x" >&2
exit 1
