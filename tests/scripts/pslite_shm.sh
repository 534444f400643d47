# Programs for ps-lite on shm.
set -e
ps=$(dirname "$0")/../ps
bash "$ps/pslite.sh" "$1" shm
bash "$ps/pslite_customers.sh" "$1" shm
