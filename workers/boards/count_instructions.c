/* A plugin of QEMU's user mode that counts the instructions its guest executes.
 *
 * Argument: descriptor=NUMBER. The guest, which is the same process, finds a page under that file
 * descriptor whose first 64 bits are the count so far. A process that the guest forks gets a page
 * of its own, so that no other process of the guest counts into it.
 *
 * Built by counting_emulator.py with PLUGIN_VERSION, the version of QEMU's plugin interface. Only
 * what is declared here is used of it, since its header is in no distribution's package of QEMU.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define OPTION "descriptor="
#define SIZE 4096
#define ADD_U64 0
#define NO_REGISTERS 0

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;

extern void qemu_plugin_register_vcpu_tb_trans_cb(
    qemu_plugin_id_t id, void (*translated)(qemu_plugin_id_t, struct qemu_plugin_tb *));
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
extern void qemu_plugin_register_vcpu_tb_exec_cb(
    struct qemu_plugin_tb *block, void (*executed)(unsigned, void *), int flags, void *data);
/* Faster, and gone from version 2 of the interface. */
extern void qemu_plugin_register_vcpu_tb_exec_inline(
    struct qemu_plugin_tb *block, int operation, void *address, uint64_t value)
    __attribute__((weak));

__attribute__((visibility("default"))) int qemu_plugin_version = PLUGIN_VERSION;

static int descriptor = -1;
static uint64_t *count;

static bool map_count(void) {
  int file = memfd_create("instructions", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, SIZE) != 0) return false;
  /* At the same address in a forked process: translated code holds it. */
  int fixed = count ? MAP_FIXED : 0;
  void *page = mmap(count, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, file, 0);
  if (page == MAP_FAILED) return false;
  count = page;
  if (dup3(file, descriptor, O_CLOEXEC) < 0) return false;
  close(file);
  return true;
}

static void forked(void) {
  if (!map_count()) abort();
}

static void executed(unsigned processor, void *instructions) {
  (void)processor;
  *count += (uintptr_t)instructions;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
  (void)id;
  uint64_t instructions = qemu_plugin_tb_n_insns(block);
  if (PLUGIN_VERSION < 2 && qemu_plugin_register_vcpu_tb_exec_inline) {
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, count, instructions);
  } else {
    qemu_plugin_register_vcpu_tb_exec_cb(
        block, executed, NO_REGISTERS, (void *)(uintptr_t)instructions);
  }
}

__attribute__((visibility("default"))) int qemu_plugin_install(
    qemu_plugin_id_t id, const void *info, int argc, char **argv) {
  (void)info;
  for (int i = 0; i < argc; i++) {
    if (strncmp(argv[i], OPTION, strlen(OPTION)) == 0) {
      descriptor = atoi(argv[i] + strlen(OPTION));
    }
  }
  if (descriptor < 0 || !map_count() || pthread_atfork(NULL, NULL, forked) != 0) return 1;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  return 0;
}
