// One JSON line an answer: who asked what, how it ended, how long it took; never what was said.
#pragma once

#include <cstdio>
#include <mutex>
#include <string>

#include "server/reply_stream.h"

namespace gemmatrace::server {

struct LogEntry {
    std::string request_id;
    std::string client;
    std::string method;
    std::string path;
    int status = 0;
    double seconds = 0.0;
    bool has_outcome = false;  // a generating route
    RequestOutcome outcome;
};

class AccessLog {
  public:
    // To standard error, or appended to `file`; "" or "-" is standard error, "off" writes nothing. Throws
    // Error(resource) when the file cannot be opened.
    explicit AccessLog(const std::string& file);
    ~AccessLog();
    AccessLog(const AccessLog&) = delete;
    AccessLog& operator=(const AccessLog&) = delete;

    // A line that cannot be written (a full disk) is lost; serving goes on.
    void write(const LogEntry& entry);

  private:
    std::mutex mutex_;
    std::FILE* file_ = nullptr;
    bool is_owned_ = false;
};

}  // namespace gemmatrace::server
