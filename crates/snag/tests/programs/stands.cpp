// One or more races in each mode, between objects of the library and of the program.
#include <cstring>
#include <string>
#include <thread>
#include <vector>

struct Shape {
    long sides = 0;
    virtual long count() { return sides; }
    virtual ~Shape() {}
};

struct Square : Shape {
    long count() override { return 4; }
    ~Square() override { sides = 0; }
};

static std::string text = "a text that is too long to be kept inside the string itself";
static std::vector<long> numbers(100, 1);
static Shape *shape = new Square;
static long result;

int main(int count, char **arguments) {
    std::string mode = count > 1 ? arguments[1] : "";
    const char *name = mode.c_str();
    std::thread first([name] {
        if (!strcmp(name, "string")) result = text[3];
        if (!strcmp(name, "deleted")) shape->sides = 3;
        if (!strcmp(name, "destroyed")) result = shape->count();
        if (!strcmp(name, "vector")) numbers[50] = 2;
        if (!strcmp(name, "member")) shape->sides++;
    });
    std::thread second([name] {
        if (!strcmp(name, "string")) text.replace(0, 10, "another one");
        if (!strcmp(name, "deleted")) delete shape;
        if (!strcmp(name, "destroyed")) delete shape;
        if (!strcmp(name, "vector")) std::vector<long>(numbers).swap(numbers);
        if (!strcmp(name, "member")) shape->sides++;
    });
    first.join(), second.join();
    return result == 77;
}
