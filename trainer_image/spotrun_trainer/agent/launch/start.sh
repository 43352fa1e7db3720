# The first program of a worker, in an image of which nothing is known: it looks for a Python and runs __main__.py with it.
# The operator gives it to /bin/sh; $1 and the following are torchrun's arguments.
refuse() {
    echo "spotrun: $1" >&2
    printf '{"reason": "unusable", "exitCode": 64, "message": "%s"}\n' "$1" >>"${SPOTRUN_TERMINATION_LOG:-/dev/termination-log}"
    exit 64
}
wanted="use an image with Python 3.10 or newer and torch 2.10 or newer"
found=
for python in python3 python; do
    command -v "$python" >/dev/null 2>&1 || continue
    "$python" -S -c 'import sys; sys.exit(sys.version_info < (3, 10))' && exec "$python" "${0%/*}/__main__.py" "$@"
    found="$found, $("$python" -V 2>&1)"
done
[ -n "$found" ] || refuse "the image has no Python in its PATH: $wanted"
refuse "no Python in the image's PATH is new enough (it has ${found#, }): $wanted"
