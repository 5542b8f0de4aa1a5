/* Free of races in every mode: data is handed over under a mutex, and a function of the C library, which the mode names,
   looks whether it is there. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fnmatch.h>
#include <iconv.h>
#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int data;
static union {
    char s[64];
    wchar_t w[16];
    struct tm tm;
    struct in_addr address;
} message;
static const char *mode;

__attribute__((noinline)) static int is(const char *name) {
    const char *at = mode;
    while (*at && *at == *name) at++, name++;
    return *at == *name;
}

static int is_wide(void) { return is("wcscmp") || is("wcsstr") || is("wcstol") || is("swscanf") || is("wcstombs"); }

static void put(void) {
    if (is_wide()) message.w[0] = L'1';
    else if (is("strftime") || is("mktime") || is("asctime")) message.tm.tm_year = 101;
    else if (is("inet_ntop")) message.address.s_addr = 1;
    else message.s[0] = '1';
}

static int arrived(void) {
    int number = 0;
    char text[64] = "", *in = message.s, *out = text;
    wchar_t wide[16] = L"";
    if (is("sscanf")) return sscanf(message.s, "%d", &number) == 1;
    if (is("snprintf")) return snprintf(text, sizeof text, "%s", message.s), *text == '1';
    if (is("asprintf")) return asprintf(&out, "%.1s", message.s), *out == '1';
    if (is("format")) return snprintf(text, sizeof text, message.s, 0), *text == '1';
    if (is("fnmatch")) return !fnmatch("1", message.s, 0);
    if (is("strcoll")) return !strcoll("1", message.s);
    if (is("strxfrm")) return strxfrm(text, message.s, sizeof text), *text == '1';
    if (is("memmem")) return memmem(message.s, 8, "1", 1) != 0;
    if (is("memrchr")) return memrchr(message.s, '1', 8) != 0;
    if (is("strcasestr")) return strcasestr(message.s, "1") != 0;
    if (is("strtok_r")) return strtok_r(message.s, ",", &out) != 0;
    if (is("strsep")) return *strsep(&in, ",") == '1';
    if (is("mbstowcs")) return mbstowcs(wide, message.s, 16), *wide == L'1';
    if (is("mbrtowc")) return mbrtowc(wide, message.s, 4, 0) == 1;
    if (is("inet_addr")) return inet_addr(message.s) == inet_addr("1");
    if (is("inet_ntop")) return inet_ntop(AF_INET, &message.address, text, sizeof text), *text == '1';
    if (is("strptime")) {
        struct tm tm = { 0 };
        return strptime(message.s, "%Y", &tm) != 0;
    }
    if (is("regexec")) {
        regex_t regex;
        regcomp(&regex, "1", 0);
        number = !regexec(&regex, message.s, 0, 0, 0);
        regfree(&regex);
        return number;
    }
    if (is("iconv")) {
        size_t left = 1, room = 1;
        iconv_t kind = iconv_open("UTF-8", "ASCII");
        iconv(kind, &in, &left, &out, &room);
        iconv_close(kind);
        return *text == '1';
    }
    if (is("wcscmp")) return !wcscmp(message.w, L"1");
    if (is("wcsstr")) return wcsstr(message.w, L"1") != 0;
    if (is("wcstol")) return wcstol(message.w, 0, 10) == 1;
    if (is("wcstombs")) return wcstombs(text, message.w, 64), *text == '1';
    if (is("swscanf")) return swscanf(message.w, L"%d", &number) == 1;
    if (is("asctime")) return asctime_r(&message.tm, text), strstr(text, "2001") != 0;
    if (is("mktime")) {
        struct tm tm;
        wmemcpy((wchar_t *)&tm, (wchar_t *)&message.tm, sizeof tm / sizeof(wchar_t));
        return mktime(&tm) > 0;
    }
    strftime(text, sizeof text, "%Y", &message.tm);
    return !strcmp(text, "2001");
}

static void *producer(void *unused) {
    data = 1;
    pthread_mutex_lock(&m);
    put();
    pthread_mutex_unlock(&m);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    mode = argc > 1 ? argv[1] : "sscanf";
    pthread_create(&thread, 0, producer, 0);
    for (;;) {
        pthread_mutex_lock(&m);
        int there = arrived();
        pthread_mutex_unlock(&m);
        if (there) break;
        usleep(1000);
    }
    data++;
    pthread_join(thread, 0);
    return 0;
}
