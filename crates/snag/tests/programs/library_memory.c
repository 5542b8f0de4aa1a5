/* Uses what functions of the C library hand out, where blocks of all sizes were freed before: nothing of it was freed. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <netdb.h>
#include <dirent.h>
#include <regex.h>
#include <glob.h>
#include <wordexp.h>
#include <pwd.h>
#include <ifaddrs.h>
#include <search.h>
#include <locale.h>
#include <sys/socket.h>
static void mix(void) { void *b[600]; for (int i = 0; i < 600; i++) { b[i] = malloc(8 + 8 * (i % 120)); memset(b[i], 1, 8); } for (int i = 0; i < 600; i++) free(b[i]); }
static int byname(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }
static void *all(void *unused) {
  mix(); struct addrinfo *info; if (!getaddrinfo("127.0.0.1", "80", 0, &info)) { for (struct addrinfo *i = info; i; i = i->ai_next) printf("%d ", i->ai_family + ((struct sockaddr *)i->ai_addr)->sa_family); freeaddrinfo(info); }
  mix(); struct dirent **list; int n = scandir("/", &list, 0, byname); for (int i = 0; i < n; i++) { printf("%c", list[i]->d_name[0]); free(list[i]); } free(list);
  mix(); regex_t r; regcomp(&r, "a(b*)c", REG_EXTENDED); regmatch_t m[2]; printf("%d", regexec(&r, "xabbc", 2, m, 0)); regfree(&r);
  mix(); glob_t g; glob("/e*", 0, 0, &g); for (size_t i = 0; i < g.gl_pathc; i++) printf("%s ", g.gl_pathv[i]); globfree(&g);
  mix(); wordexp_t w; wordexp("a b c", &w, 0); for (size_t i = 0; i < w.we_wordc; i++) printf("%s ", w.we_wordv[i]); wordfree(&w);
  mix(); char *line = 0; size_t size = 0; FILE *f = fopen("/etc/passwd", "r"); getline(&line, &size, f); printf("%c", line[0]); free(line); fclose(f);
  mix(); char *s; asprintf(&s, "%d %s", 7, "x"); printf("%s", s); free(s);
  mix(); char *mem; size_t len; f = open_memstream(&mem, &len); fprintf(f, "hello"); fclose(f); printf("%s", mem); free(mem);
  mix(); struct ifaddrs *ifs; if (!getifaddrs(&ifs)) { for (struct ifaddrs *i = ifs; i; i = i->ifa_next) printf("%s ", i->ifa_name); freeifaddrs(ifs); }
  mix(); char *d = strdup("dup"); char *e = strndup("dupdup", 4); printf("%s%s", d, e); free(d); free(e);
  mix(); void *root = 0; tsearch("a", &root, (int (*)(const void *, const void *))strcmp); tsearch("b", &root, (int (*)(const void *, const void *))strcmp); printf("%s", *(char **)tfind("a", &root, (int (*)(const void *, const void *))strcmp)); tdelete("a", &root, (int (*)(const void *, const void *))strcmp);
  mix(); FILE *p = popen("echo hi", "r"); char text[8]; fgets(text, 8, p); printf("%s", text); pclose(p);
  mix(); DIR *dir = opendir("/"); struct dirent *en = readdir(dir); printf("%d", en->d_name[0] != 0); closedir(dir);
  mix(); char *ml = 0; sscanf("word", "%ms", &ml); printf("%s\n", ml); free(ml);
  return unused;
}
int main(void) { pthread_t t[4]; for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, all, 0); for (int i = 0; i < 4; i++) pthread_join(t[i], 0); return 0; }
