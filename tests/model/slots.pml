/* The ring of slots, static protocol: K slots, N tensors. The sender's payload is two halves and a
   flag, stored in that order; the receiver may let go of tensors out of order. Words are read and
   written one at a time; everything in between may interleave.

   Checked: no tensor is lost, doubled, torn or out of order; nobody stops before the end. 
   With BROKEN the rule that makes it right is left out, and the checker must find that. */
#define K 2
#define N 6

byte first[K], second[K];   /* the two halves of the slot's payload: the tensor's number */
byte flag[K];               /* at the receiver, written by the sender */
byte word[K];               /* at the sender, written by the receiver */

inline before(n, out) { if :: n > K -> out = n - K :: else -> out = 0 fi }

active proctype sender() {
  byte n = 1, slot, wanted;
  do
  :: n > N -> break
  :: else ->
     slot = (n - 1) % K;
     before(n, wanted);
#ifndef BROKEN
     word[slot] == wanted;                       /* waits for the acknowledgement */
#endif
     assert(word[slot] <= wanted);
     first[slot] = n;
     second[slot] = n;
     flag[slot] = n;
     n++
  od
}

/* Takes tensors in order; holds up to K, lets go of them in any order. */
active proctype receiver() {
  byte n = 1, slot, i, seen, old;
  bool held[K];
  do
  :: n <= N && flag[(n - 1) % K] == n ->
     slot = (n - 1) % K;
     assert(!held[slot]);                        /* never overwritten while in use */
     assert(first[slot] == n && second[slot] == n);
     held[slot] = true;
     n++
  :: n <= N ->                                   /* not there yet: what is there is what was */
     atomic { slot = (n - 1) % K; seen = flag[slot]; before(n, old) }
     assert(seen == n || seen == old)
  :: atomic { held[0] -> i = 0 }
     atomic { seen = first[i] }; assert(seen == second[i]);   /* still whole */
     held[i] = false; word[i] = seen
  :: atomic { held[1] -> i = 1 }
     atomic { seen = first[i] }; assert(seen == second[i]);
     held[i] = false; word[i] = seen
  :: n > N && !held[0] && !held[1] -> break
  od
}
