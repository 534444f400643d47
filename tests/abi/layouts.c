// Prints the layout of every plain struct of the C interface, as a C11 program sees it. What it
// prints is compared with layouts.txt: a difference needs another soname.
#include <stdio.h>
#include <string.h>

#include "ferry/interop/c/tensorferry.h"

#define TYPE(type) printf("%s %zu\n", #type, sizeof(type))
#define FIELD(type, field) \
  printf("  %s %zu %zu\n", #field, offsetof(type, field), sizeof(((type*)NULL)->field))

static void print_plain_data(void) {
  TYPE(ferry_spec);
  FIELD(ferry_spec, type);
  FIELD(ferry_spec, rank);
  FIELD(ferry_spec, dims);
  TYPE(ferry_tensor);
  FIELD(ferry_tensor, spec);
  FIELD(ferry_tensor, data);
  FIELD(ferry_tensor, bytes);
  TYPE(ferry_remote);
  FIELD(ferry_remote, key);
  FIELD(ferry_remote, address);
  FIELD(ferry_remote, length);
  FIELD(ferry_remote, epoch);
  FIELD(ferry_remote, rights);
  TYPE(ferry_ticket);
  TYPE(ferry_part);
  FIELD(ferry_part, data);
  FIELD(ferry_part, bytes);
  TYPE(ferry_update);
  FIELD(ferry_update, kind);
  FIELD(ferry_update, rate);
  FIELD(ferry_update, momentum);
  FIELD(ferry_update, beta1);
  FIELD(ferry_update, beta2);
  FIELD(ferry_update, epsilon);
}

static void print_device_options(void) {
  TYPE(ferry_device_options);
  FIELD(ferry_device_options, size);
  FIELD(ferry_device_options, provider);
  FIELD(ferry_device_options, listen);
  FIELD(ferry_device_options, secret);
  FIELD(ferry_device_options, secret_file);
  FIELD(ferry_device_options, arena_bytes);
  FIELD(ferry_device_options, budget_bytes);
  FIELD(ferry_device_options, spin_ns);
  FIELD(ferry_device_options, operation_ns);
  FIELD(ferry_device_options, give_up_ns);
  FIELD(ferry_device_options, patience);
  FIELD(ferry_device_options, completion_queues);
  FIELD(ferry_device_options, lanes_per_peer);
  FIELD(ferry_device_options, verbs_device);
}

static void print_options(void) {
  TYPE(ferry_connect_options);
  FIELD(ferry_connect_options, lane);
  FIELD(ferry_connect_options, stripe);
  TYPE(ferry_receiver_options);
  FIELD(ferry_receiver_options, protocol);
  FIELD(ferry_receiver_options, slots);
  FIELD(ferry_receiver_options, copies);
  FIELD(ferry_receiver_options, spins);
  FIELD(ferry_receiver_options, pad);
  FIELD(ferry_receiver_options, most_pad);
  TYPE(ferry_sender_options);
  FIELD(ferry_sender_options, private_memory);
  TYPE(ferry_writer_options);
  FIELD(ferry_writer_options, versions);
  FIELD(ferry_writer_options, readers);
  TYPE(ferry_mailbox_options);
  FIELD(ferry_mailbox_options, tuning);
  FIELD(ferry_mailbox_options, slots);
  FIELD(ferry_mailbox_options, slot_bytes);
  FIELD(ferry_mailbox_options, eager_threshold);
  FIELD(ferry_mailbox_options, most_bytes);
  FIELD(ferry_mailbox_options, send_bytes);
}

static void print_job_options(void) {
  TYPE(ferry_job_options);
  FIELD(ferry_job_options, servers);
  FIELD(ferry_job_options, workers);
  FIELD(ferry_job_options, consistency);
  FIELD(ferry_job_options, mean);
  FIELD(ferry_job_options, staleness);
  FIELD(ferry_job_options, block_bytes);
  FIELD(ferry_job_options, replicas);
  FIELD(ferry_job_options, shards);
  FIELD(ferry_job_options, provider);
  FIELD(ferry_job_options, listen);
  FIELD(ferry_job_options, secret);
  FIELD(ferry_job_options, restore);
  TYPE(ferry_worker_options);
  FIELD(ferry_worker_options, scheduler);
  FIELD(ferry_worker_options, secret);
  FIELD(ferry_worker_options, provider);
  FIELD(ferry_worker_options, rank);
  FIELD(ferry_worker_options, not_finite);
}

int main(void) {
  print_plain_data();
  print_device_options();
  print_options();
  print_job_options();
  return 0;
}
