// The command line: filled in by the commands of this folder.
int main() { return 0; }
