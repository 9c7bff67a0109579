/* Which digit is it? Reads images of 8 x 8 numbers from 0 to 1 as text, writes a digit for each.

       tessella compile ../digits/digits.onnx --emit c --shape image=1x1x8x8 -o digits_net.o
       cc -O2 -pthread digits.c digits_net.o -o digits
       ./digits 2 < images.txt                  on two threads

   For AArch64, on another machine (docs/shipping.md):

       tessella compile ../digits/digits.onnx --emit c --target neon --shape image=1x1x8x8 -o digits_net.o
       aarch64-linux-gnu-gcc -O2 -static -pthread digits.c digits_net.o -o digits
       qemu-aarch64 ./digits 2 < images.txt
*/
#include <pthread.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>

#include "digits_net.h"

enum { MOST = 8 };
static alignas(64) unsigned char workspace[DIGITS_NET_WORKSPACE_OF(MOST)];

/* Threads for a phase of a model, started for each: a server would keep them. */
struct part {
  void (*task)(void *argument, int i);
  void *argument;
  int i;
};

static void *run_part(void *pointer)
{
  struct part *part = pointer;
  part->task(part->argument, part->i);
  return NULL;
}

static void parallel(void *self, int count, void (*task)(void *, int), void *argument)
{
  pthread_t threads[MOST];
  struct part parts[MOST];
  (void)self;
  for (int i = 1; i < count; i++) {
    parts[i] = (struct part){task, argument, i};
    if (pthread_create(&threads[i], NULL, run_part, &parts[i]))
      exit(3);
  }
  task(argument, 0);
  for (int i = 1; i < count; i++)
    pthread_join(threads[i], NULL);
}

int main(int count, char **arguments)
{
  struct digits_net_threads threads = {1, parallel, NULL};
  float image[64], logits[10];
  if (count > 1)
    threads.count = atoi(arguments[1]);
  if (threads.count < 1 || threads.count > MOST)
    return 2;
  for (int read = 0; scanf("%f", &image[read]) == 1;) {
    if (++read < 64)
      continue;
    read = 0;
    if (digits_net_run_on(image, logits, workspace, &threads) != 0)
      return 1;
    int best = 0;
    for (int i = 1; i < 10; i++)
      best = logits[i] > logits[best] ? i : best;
    printf("%d\n", best);
  }
  return 0;
}
