# The first program of a worker, in an image of which nothing is known: it looks for a Python and runs __main__.py with it.
# The operator gives it to /bin/sh; $1 and the following are torchrun's arguments.
end() { # REASON EXIT_CODE MESSAGE
    echo "spotrun: $3" >&2
    printf '{"reason": "%s", "exitCode": %s, "message": "%s"}\n' "$1" "$2" "$3" >>"${SPOTRUN_TERMINATION_LOG:-/dev/termination-log}"
    exit "$2"
}
too_old=99 # what a Python that works ends with; any other code is one of a Python that does not
wanted="use an image with Python 3.10 or newer and torch 2.10 or newer"
found=
broken=
for python in python3 python; do
    command -v "$python" >/dev/null 2>&1 || continue
    "$python" -S -c "import sys; sys.exit($too_old * (sys.version_info < (3, 10)))"
    code=$?
    [ "$code" -ne 0 ] || exec "$python" "${0%/*}/__main__.py" "$@"
    if [ "$code" -eq "$too_old" ]; then
        found="$found, $("$python" -V 2>&1)"
    else
        broken="$broken, $python ended with exit code $code"
    fi
done
[ -z "$broken" ] || end failed 67 "a Python in the image's PATH did not start: ${broken#, }"
[ -n "$found" ] || end unusable 64 "the image has no Python in its PATH: $wanted"
end unusable 64 "no Python in the image's PATH is new enough (it has ${found#, }): $wanted"
