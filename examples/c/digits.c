/* Which digit is it? Reads images of 8 x 8 numbers from 0 to 1 as text, writes a digit for each.

       tessella compile ../digits/digits.onnx --emit c --shape image=1x1x8x8 -o digits_net.o
       cc -O2 digits.c digits_net.o -o digits
       ./digits < images.txt
*/
#include <stdalign.h>
#include <stdio.h>

#include "digits_net.h"

static alignas(64) unsigned char workspace[DIGITS_NET_WORKSPACE];

int main(void)
{
  float image[64], logits[10];
  for (int count = 0; scanf("%f", &image[count]) == 1;) {
    if (++count < 64)
      continue;
    count = 0;
    if (digits_net_run(image, logits, workspace) != 0)
      return 1;
    int best = 0;
    for (int i = 1; i < 10; i++)
      best = logits[i] > logits[best] ? i : best;
    printf("%d\n", best);
  }
  return 0;
}
