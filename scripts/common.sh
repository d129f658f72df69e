# Shared by the scripts beside it; sourced, never run.

# What is expensive to make and outlives a clone.
cache_dir=${LEVERET_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/leveret}
# A RabbitMQ of the 4 series, in a root file system of its own.
rabbitmq_4_root=$cache_dir/forky

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# Runs a command as root, through a sudo that asks nothing where the caller is somebody else.
as_root() {
    if [[ $(id -u) == 0 ]]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo -n -- "$@"
    else
        die "this needs root: run it as root, or install sudo ($*)"
    fi
}

# Installs packages of the distribution.
apt_install() {
    command -v apt-get >/dev/null || die "no apt-get here: install $* yourself"
    say "installing $*"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >&2 </dev/null
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" >&2 </dev/null
}
