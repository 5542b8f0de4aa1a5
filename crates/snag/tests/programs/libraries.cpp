// dlopen in threads, constructors, thread_local in a library. No races.
#include <dlfcn.h>
#include <cstdio>
#include <thread>
#include <vector>
#include <atomic>
int main(){ if(dlerror()) return 1; std::atomic<int> sum{0}; std::vector<std::thread> ts; for(int i=0;i<3;i++) ts.emplace_back([&]{ void*h=dlopen("./library.so",RTLD_NOW); auto f=(int(*)())dlsym(h,"total"); sum+=f(); dlclose(h); }); for(auto&t:ts) t.join(); std::printf("%d\n",(int)sum); }
