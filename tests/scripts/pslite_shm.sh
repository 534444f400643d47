# Programs for ps-lite on shm.
exec bash "$(dirname "$0")/../ps/pslite.sh" "$1" shm
