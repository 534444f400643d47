/* Dynamic protocol: payload in the slot or in the sender's buffer, and the move to a larger
   landing. Two landings of K slots; the receiver offers the second at any time; the sender takes
   it up by a last record in the first.

   Checked: tensors come in order, whole, once; a buffer is not written while its tensor is in use;
   an offer is taken once; nobody stops before the end. 
   With BROKEN the rule that makes it right is left out, and the checker must find that. */
#define K 2
#define N 5
#define SLOT 1
#define SENDER 2
#define MOVED 3

byte flag[4];      /* landing * K + slot */
byte where[4];     /* the record behind it */
byte payload[4];   /* in the slot */
byte buffer[K];    /* the sender's, one for each slot */
byte word[K];      /* acknowledgements, the same for both landings */
byte offer;

inline before(n, out) { if :: n > K -> out = n - K :: else -> out = 0 fi }

active proctype sender() {
  byte n = 1, sent = 0, landing = 0, at, wanted;
  do
  :: sent == N -> break
  :: else ->
     before(n, wanted);
#ifndef BROKEN
     word[(n - 1) % K] == wanted;
#endif
     at = landing * K + (n - 1) % K;
     if
     :: offer == 1 && landing == 0 ->
        where[at] = MOVED;
        flag[at] = n;
        landing = 1
     :: else ->
        sent++;
        if
        :: payload[at] = sent; where[at] = SLOT
        :: buffer[(n - 1) % K] = sent; where[at] = SENDER
        fi;
        flag[at] = n
     fi;
     n++
  od
}

active proctype receiver() {
  byte n = 1, got = 0, landing = 0, at, value;
  do
  :: got == N -> break
  :: offer == 0 -> offer = 1
  :: flag[landing * K + (n - 1) % K] == n ->
     at = landing * K + (n - 1) % K;
     if
     :: where[at] == MOVED ->
        assert(offer == 1 && landing == 0);
        word[(n - 1) % K] = n;
        landing = 1
     :: where[at] == SLOT ->
        value = payload[at];
        assert(value == got + 1);
        assert(payload[at] == value);      /* nobody writes it while it is used */
        got++;
        word[(n - 1) % K] = n
     :: where[at] == SENDER ->
        value = buffer[(n - 1) % K];
        assert(value == got + 1);
        assert(buffer[(n - 1) % K] == value);
        got++;
        word[(n - 1) % K] = n
     fi;
     n++
  od
}
