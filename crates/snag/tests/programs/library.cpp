// A library with a constructor and a destructor, for libraries.cpp.
#include <vector>
#include <mutex>
struct G { std::vector<int> v{1,2,3}; ~G(){ v.clear(); } };
static G g; static std::mutex m;
__attribute__((constructor)) static void ctor() { g.v.push_back(4); }
extern "C" int total() { static int calls = 0; std::lock_guard<std::mutex> l(m); calls++; int s=0; for(int x: g.v) s+=x; return s + 0*calls; }
