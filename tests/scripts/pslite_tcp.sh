# Programs for ps-lite on tcp.
set -e
ps=$(dirname "$0")/../ps
bash "$ps/pslite.sh" "$1" tcp
bash "$ps/pslite_customers.sh" "$1" tcp
