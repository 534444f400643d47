# Programs for ps-lite on tcp.
exec bash "$(dirname "$0")/../ps/pslite.sh" "$1" tcp
