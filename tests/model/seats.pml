/* A seat of a shared tensor: the writer gives its reader up at any time and lets another one have
   the seat, and the reader that was given up lives on. One word; a generation and a state. Readers
   change it only from what they left there, the writer takes it back by clearing it.

   Checked: what the reader of a seat holds is not written before it has let go of it, or been given
   up; one that was given up is told so when it lets go.
   With BROKEN readers store without looking, and the checker must find that. */
#define V 2          /* versions beside the newest that could be written */
#define G 3          /* readers, one after the other */
#define IDLE 1
#define NAMES 2      /* + version */
#define W(g, s) ((g) * 8 + (s))

byte word;           /* 0: nobody's */
byte generation;     /* of the reader that has the seat */
byte payload[V];     /* how often it was written */
byte number[V];      /* the same, once it is published; 0: being written */

/* The word goes from one value to another, or `ok` says that it was not there. */
inline change(from, to, ok) {
#ifdef BROKEN
  word = to;
  ok = true
#else
  atomic {
    if
    :: word == from -> word = to; ok = true
    :: else -> ok = false
    fi
  }
#endif
}

active proctype writer() {
  byte v, held, writes;
  do
  :: writes == 3 && generation == G -> break
  :: generation < G -> word = 0;                  /* given up, or nobody was there yet */
     generation++;
     word = W(generation, IDLE);                  /* admitted */
     run reader(generation)
  :: generation > 0 && writes < 3 ->
     if :: v = 0 :: v = 1 fi;
     held = number[v];
     number[v] = 0;
     if
     :: (word & 7) == NAMES + v -> number[v] = held
     :: else ->
        payload[v]++;
        number[v] = payload[v];
        writes++
     fi
  od
}

proctype reader(byte me) {
  byte v, n, rounds;
  bool ok = true;
  do
  :: !ok || rounds == 2 -> break
  :: else ->
     rounds++;
     if :: v = 0 :: v = 1 fi;
     n = number[v];
     if
     :: n == 0 -> skip
     :: else ->
        change(W(me, IDLE), W(me, NAMES + v), ok);
        if
        :: ok && number[v] == n ->
           n = payload[v];                        /* reads it, now and */
           if
           :: n == payload[v] -> change(W(me, NAMES + v), W(me, IDLE), ok)
           :: else ->                             /* later: other bytes */
              change(W(me, NAMES + v), W(me, IDLE), ok);
              assert(!ok)                         /* it hears of it */
           fi
        :: ok && number[v] != n -> change(W(me, NAMES + v), W(me, IDLE), ok)
        :: !ok
        fi
     fi
  od
}
