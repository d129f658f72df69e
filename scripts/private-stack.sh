# A private RabbitMQ, and a Leveret on it; sourced after common.sh, never run. All of it is gone when the script ends.

# start_node INSTALLATION: starts the broker; where $plugin is set, with that plugin. Then $dir is the node's directory (see
# broker-node), and the environment has what `leveret` needs to find it.
start_node() {
    local installation=$1
    dir=$(mktemp -d "${TMPDIR:-/tmp}/leveret-${0##*/}-XXXXXX")
    # The guard ends the node and removes its directory when descriptor 3 closes, however this script dies. Nobody else
    # may hold that descriptor, hence the `3>&-` here and in the scripts that source this.
    exec 3> >(exec "$here/broker-node" guard "$dir")
    guard=$!
    sidecar=
    trap stop_stack EXIT

    if [[ -n ${plugin:-} ]]; then
        mkdir "$dir/plugins"
        cp -r -- "$plugin" "$dir/plugins/"
    fi
    say "starting RabbitMQ $("$here/broker-node" version "$installation" 3>&-) on free ports"
    "$here/broker-node" start "$dir" "$installation" 3>&-
    . "$dir/node.env"
    export LEVERET_AMQP__URI=$uri
}

# start_sidecar LEVERET: returns when it is ready. Then $sidecar is its process.
start_sidecar() {
    local leveret=$1
    # No configuration but these two: the default bridge takes what is published to the exchange `delay` and sends it to
    # the queue that the routing key names.
    admin_port=$("$here/broker-node" free-port 3>&-)
    export LEVERET_ADMIN__LISTEN=127.0.0.1:$admin_port
    say "starting leveret run, with LEVERET_AMQP__URI=amqp://127.0.0.1:$amqp_port"
    "$leveret" run >"$dir/leveret.log" 2>&1 3>&- &
    sidecar=$!
    local deadline=$((SECONDS + 60))
    until (is_ready) 2>/dev/null; do
        kill -0 "$sidecar" 2>/dev/null || fail "leveret has ended."
        ((SECONDS < deadline)) || fail "leveret is not ready."
        sleep 0.1
    done
}

stop_stack() {
    [[ -z $sidecar ]] || kill "$sidecar" 2>/dev/null || true
    [[ -z $sidecar ]] || wait "$sidecar" || true
    exec 3>&-
    wait "$guard" || true
}

is_ready() {
    local status
    exec 4<>"/dev/tcp/127.0.0.1/$admin_port" || return 1
    printf 'GET /readyz HTTP/1.0\r\n\r\n' >&4
    read -r -t 5 _ status _ <&4 && [[ $status == 200 ]]
}

fail() {
    say "$* The last lines of leveret's log:"
    tail -n 20 "$dir/leveret.log" >&2
    exit 1
}
