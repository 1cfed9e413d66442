# Runs a server ("$@" after the first argument) that cannot outlive the test process.
#
# Standard input is a pipe whose other end only the test process has: its end of file means that
# the server and the directory $1 are to go. Prints the server's process id, and ends after the
# server.
directory=$1
shift
exec 3<&0
"$@" </dev/null >>"$directory/log" 2>&1 3<&- &
server=$!
# Only now: a signal that is ignored here would be ignored in the server too.
trap '' PIPE
{
    read -r _ <&3
    : >"$directory/abandoned"
    kill -KILL "$server"
} >/dev/null &
watcher=$!
exec 3<&-
echo "$server"
wait "$server"
if [ -e "$directory/abandoned" ]; then
    rm -rf -- "$directory"
else
    kill "$watcher"
fi
