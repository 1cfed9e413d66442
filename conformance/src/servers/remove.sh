# Removes the container $2 by the command $1, and the directory $3 if it is not empty, when the test
# process is gone.
#
# Standard input is a pipe whose other end only the test process has: its end of file means that
# they are to go, a line that nothing is left to do.
read -r _ && exit
"$1" rm --force --volumes "$2" >/dev/null 2>&1
[ -z "$3" ] || rm -rf -- "$3"
