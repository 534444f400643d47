/* Shared versions: V versions, one writer that publishes N times, R readers. Stores and loads are
   one step each; the fences of the code make them so in this order.

   Checked: a version that is leased, or being copied, is never written; what a reader holds is
   whole and the number it was promised; the writer always finds a version, once copying ends. 
   With BROKEN the rule that makes it right is left out, and the checker must find that. */
#define V 3
#define R 2
#define N 4

byte newest_number, newest_version;   /* one word in the code: changed and read in one step */
byte number[V];                       /* 0: being written */
byte first[V], second[V];             /* the payload's halves */
byte lease[R], copying[R];            /* version + 1; 0: none */
bool done;

inline used(v, out) {
  out = false;
  s = 0;
  do
  :: s == R -> break
  :: else -> if :: lease[s] == v + 1 || copying[s] == v + 1 -> out = true :: else fi; s++
  od
}

active proctype writer() {
  byte n = 1, v = 0, held, s;
  bool taken, busy;
  do
  :: n > N -> break
  :: else ->
     taken = false;
     v = 0;
     do
     :: taken -> break
     :: else ->
        if
        :: newest_number != 0 && v == newest_version -> skip
        :: else ->
           held = number[v];
           number[v] = 0;
           used(v, busy);
           if :: busy -> number[v] = held :: else -> taken = true fi
        fi;
        if :: taken -> skip :: else -> v = (v + 1) % V fi
     od;
     first[v] = n;
     second[v] = n;
     number[v] = n;
     atomic { newest_number = n; newest_version = v };
     n++
  od;
  done = true
}

proctype reader(byte me) {
  byte v, n, last, count, i, j;
  bool seen[V];
  do
  :: done -> break
  :: atomic { newest_number > last -> n = newest_number; v = newest_version };
     lease[me] = v + 1;
     if
#ifndef BROKEN
     :: number[v] != n -> lease[me] = 0          /* too late: again */
#endif
     :: else ->
        /* how many versions are leased, mine included */
        count = 0;
        i = 0;
        do :: i == V -> break :: else -> seen[i] = false; i++ od;
        i = 0;
        do
        :: i == R -> break
        :: else ->
           j = lease[i];
           if
           :: j != 0 && !seen[j - 1] -> seen[j - 1] = true; count++
           :: else
           fi;
           i++
        od;
        if
        :: count + 2 <= V ->
           assert(first[v] == n);
           assert(second[v] == n);                /* in place, as long as it likes */
           last = n;
           lease[me] = 0
        :: else ->
           lease[me] = 0;
           atomic { n = newest_number; v = newest_version };
           copying[me] = v + 1;
           if
           :: number[v] == n ->
              assert(first[v] == n);
              assert(second[v] == n);
              last = n
           :: else
           fi;
           copying[me] = 0
        fi
     fi
  od
}

init { atomic { run reader(0); run reader(1) } }
