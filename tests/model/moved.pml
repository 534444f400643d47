/* Dynamic protocol: payload in the slot or in the sender's buffer, and the move to a larger
   landing. Two landings of K slots; the receiver offers the second at any time; the sender takes
   it up by a bit in the metadata of its last tensor in the first. The receiver holds
   each tensor until it has the next.

   Checked: tensors come in order, whole, once; a buffer is not written while its tensor is in use;
   an offer is taken once; nobody stops before the end.
   With BROKEN the rule that makes it right is left out, and the checker must find that. */
#define K 2
#define N 5
#define SLOT 1
#define SENDER 2

byte flag[4];      /* landing * K + slot */
byte where[4];     /* the metadata behind it: the payload's place, */
bool moves[4];     /* and whether what follows comes to the other landing */
byte payload[4];   /* in the slot */
byte buffer[K];    /* the sender's, one for each slot */
byte word[K];      /* acknowledgements, the same for both landings */
byte offer;

inline before(n, out) { if :: n > K -> out = n - K :: else -> out = 0 fi }

active proctype sender() {
  byte n = 1, landing = 0, at, wanted;
  do
  :: n > N -> break
  :: else ->
     before(n, wanted);
#ifndef BROKEN
     word[(n - 1) % K] == wanted;
#endif
     at = landing * K + (n - 1) % K;
     moves[at] = (offer == 1 && landing == 0);
     if
     :: payload[at] = n; where[at] = SLOT
     :: buffer[(n - 1) % K] = n; where[at] = SENDER
     fi;
     flag[at] = n;
     if :: moves[at] -> landing = 1 :: else fi;
     n++
  od
}

/* What tensor n looks like to the receiver, which found it at `at`. */
inline check(n, at) {
  if
  :: where[at] == SLOT -> assert(payload[at] == n)
  :: where[at] == SENDER -> assert(buffer[(n - 1) % K] == n)
  fi
}

active proctype receiver() {
  byte n = 1, landing = 0, at, held = 0, held_at;
  do
  :: n > N && held == 0 -> break
  :: offer == 0 && n <= N -> offer = 1
  :: n <= N && flag[landing * K + (n - 1) % K] == n ->
     at = landing * K + (n - 1) % K;
     check(n, at);
     if
     :: moves[at] -> assert(offer == 1 && landing == 0); landing = 1
     :: else
     fi;
     if
     :: held != 0 ->                       /* lets go of the one before only now */
        check(held, held_at);              /* nobody wrote it while it was held */
        word[(held - 1) % K] = held
     :: else
     fi;
     held = n;
     held_at = at;
     n++
  :: n > N && held != 0 -> check(held, held_at); word[(held - 1) % K] = held; held = 0
  od
}
