#include "telemetry/exporters/buffer_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "ring_parser.h"
#include "support/temp_dir.h"

namespace nixl {
namespace {

using test::fileBytes;
using test::TempDir;

std::vector<std::string>
namesIn(const std::string &directory) {
    std::vector<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(directory))
        names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

using Names = std::vector<std::string>;

TEST(BufferFileNameTest, OrdinaryNamesStayAsTheyAre) {
    for (const char *name : {"agent", "a.b", "...", ".hidden", "agent 1", "50%", "50%z", "\xC3\xA4", "a\nb"})
        EXPECT_EQ(name, bufferFileName(name).value());
}

TEST(BufferFileNameTest, NamesThatLeadElsewhereAreEncoded) {
    EXPECT_EQ("..%2Fx", bufferFileName("../x").value());
    EXPECT_EQ("%2Fetc%2Fpasswd", bufferFileName("/etc/passwd").value());
    EXPECT_EQ("%2E", bufferFileName(".").value());
    EXPECT_EQ("%2E%2E", bufferFileName("..").value());
    EXPECT_EQ("a%00b", bufferFileName(std::string("a\0b", 3)).value());
    EXPECT_EQ("%00", bufferFileName(std::string(1, '\0')).value());
    // What looks like an escape is escaped, or it would be another agent's name.
    EXPECT_EQ("..%252Fx", bufferFileName("..%2Fx").value());
}

TEST(BufferFileNameTest, NamesWithoutAFileAreRefused) {
    EXPECT_EQ(255u, bufferFileName(std::string(255, 'n')).value().size());
    EXPECT_EQ(NIXL_ERR_INVALID_PARAM, bufferFileName("").status().code());
    EXPECT_EQ(NIXL_ERR_INVALID_PARAM, bufferFileName(std::string(256, 'n')).status().code());
    EXPECT_EQ(NIXL_ERR_INVALID_PARAM, bufferFileName(std::string(86, '/')).status().code());
    const Status tooLong = bufferFileName(std::string(100000, 'n')).status();
    EXPECT_NE(std::string::npos, tooLong.message().find("100000"));
    EXPECT_LT(tooLong.message().size(), 300u);
}

TEST(BufferFileTest, IsCompleteAndEmpty) {
    const TempDir dir;
    const mode_t before = ::umask(022);
    const Result<BufferFile> file = createBufferFile(dir.path(), "agent", 8);
    ::umask(before);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(dir.file("agent"), file.value().path);
    EXPECT_EQ(Names{"agent"}, namesIn(dir.path()));
    const test::Ring ring = test::parseRing(dir.file("agent"));
    EXPECT_EQ(0u, ring.write);
    EXPECT_EQ(0u, ring.read);
    EXPECT_EQ(4u, ring.version);
    EXPECT_EQ(4u, ring.expectedVersion);
    EXPECT_EQ(8u, ring.capacity);
    EXPECT_EQ(7u, ring.mask);
    EXPECT_EQ(40u + 8 * 16, ring.fileSize);
    struct stat info;
    ASSERT_EQ(0, ::stat(dir.file("agent").c_str(), &info));
    EXPECT_EQ(0644u, info.st_mode & 07777);
    // The blocks exist: a disk that fills up cannot take them away.
    EXPECT_GT(info.st_blocks, 0);
}

TEST(BufferFileTest, TakesThePlaceOfOneLeftBehind) {
    const TempDir dir;
    const pid_t child = ::fork();
    if (child == 0) {
        // Dies without a destructor, as by SIGKILL.
        Result<BufferFile> file = createBufferFile(dir.path(), "agent", 16);
        if (file.ok())
            file.value().mapping.header().writePosition = 5;
        ::_exit(file.ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(child, ::waitpid(child, &status, 0));
    ASSERT_EQ(0, status);
    ASSERT_EQ(5u, test::parseRing(dir.file("agent")).write);
    const int reader = ::open(dir.file("agent").c_str(), O_RDONLY);

    const Result<BufferFile> file = createBufferFile(dir.path(), "agent", 4);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(0u, test::parseRing(dir.file("agent")).write);
    EXPECT_EQ(4u, test::parseRing(dir.file("agent")).capacity);
    EXPECT_EQ(Names{"agent"}, namesIn(dir.path()));
    // A reader of the old one keeps what it had.
    struct stat old;
    ASSERT_EQ(0, ::fstat(reader, &old));
    EXPECT_EQ(40 + 16 * 16, old.st_size);
    ::close(reader);
}

TEST(BufferFileTest, ReplacesBuffersOfOtherVersionsAndEmptyFiles) {
    const TempDir dir;
    std::string old(40 + 2 * 64, '\0');
    old[16] = old[20] = 2;
    old[24] = 2;
    old[32] = 1;
    dir.write("old", old);
    dir.write("empty", "");
    EXPECT_TRUE(createBufferFile(dir.path(), "old", 4).ok());
    EXPECT_TRUE(createBufferFile(dir.path(), "empty", 4).ok());
    EXPECT_EQ(4u, test::parseRing(dir.file("old")).version);
    EXPECT_EQ(4u, test::parseRing(dir.file("empty")).version);
}

TEST(BufferFileTest, LiveAgentsOfOneNameGetAFileEach) {
    const TempDir dir;
    Result<BufferFile> first = createBufferFile(dir.path(), "agent", 4);
    Result<BufferFile> second = createBufferFile(dir.path(), "agent", 4);
    Result<BufferFile> third = createBufferFile(dir.path(), "agent", 4);
    ASSERT_TRUE(first.ok() && second.ok() && third.ok());
    EXPECT_EQ(dir.file("agent"), first.value().path);
    EXPECT_EQ(dir.file("agent.2"), second.value().path);
    EXPECT_EQ(dir.file("agent.3"), third.value().path);
    // The number that becomes free is used again.
    {
        const BufferFile gone = std::move(second).value();
    }
    EXPECT_EQ(dir.file("agent.2"), createBufferFile(dir.path(), "agent", 4).value().path);
    EXPECT_EQ((Names{"agent", "agent.2", "agent.3"}), namesIn(dir.path()));
}

TEST(BufferFileTest, ManyLiveAgentsOfOneNameEndInAnError) {
    const TempDir dir;
    std::vector<BufferFile> files;
    Status failure;
    for (int i = 0; i < 100 && failure.ok(); ++i) {
        Result<BufferFile> file = createBufferFile(dir.path(), "agent", 4);
        failure = file.status();
        if (file.ok())
            files.push_back(std::move(file).value());
    }
    EXPECT_EQ(NIXL_ERR_BACKEND, failure.code());
    EXPECT_EQ(files.size(), namesIn(dir.path()).size());
}

/// Expects that "agent" cannot be made, that the message contains `reason`, and that no file was added.
void
expectRefused(const TempDir &dir, const std::string &reason) {
    const Names before = namesIn(dir.path());
    const Result<BufferFile> file = createBufferFile(dir.path(), "agent", 4);
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(NIXL_ERR_BACKEND, file.status().code());
    EXPECT_NE(std::string::npos, file.status().message().find(dir.path())) << file.status().message();
    EXPECT_NE(std::string::npos, file.status().message().find(reason)) << file.status().message();
    EXPECT_EQ(before, namesIn(dir.path()));
}

TEST(BufferFileTest, SymbolicLinksAreNotFollowed) {
    const TempDir dir;
    const TempDir elsewhere;
    // The victim is a perfect buffer, so that nothing but the link can be the reason.
    ASSERT_TRUE(createBufferFile(elsewhere.path(), "victim", 4).ok());
    const std::string victim = fileBytes(elsewhere.file("victim"));
    std::filesystem::create_symlink(elsewhere.file("victim"), dir.file("agent"));
    expectRefused(dir, "symbolic link");
    EXPECT_EQ(victim, fileBytes(elsewhere.file("victim")));
    EXPECT_TRUE(std::filesystem::is_symlink(dir.file("agent")));

    std::filesystem::remove(dir.file("agent"));
    std::filesystem::create_symlink(elsewhere.file("new"), dir.file("agent"));
    expectRefused(dir, "symbolic link");
    EXPECT_FALSE(std::filesystem::exists(elsewhere.file("new")));
}

TEST(BufferFileTest, FilesThatAreNoBuffersAreLeftAlone) {
    const TempDir dir;
    for (const std::string &text :
         {std::string("precious notes"), std::string(4096, 'x'), std::string(4096, '\0')}) {
        dir.write("agent", text);
        expectRefused(dir, "no telemetry buffer");
        EXPECT_EQ(text, fileBytes(dir.file("agent")));
    }
}

TEST(BufferFileTest, ThingsThatAreNoFilesAreLeftAlone) {
    const TempDir dir;
    std::filesystem::create_directory(dir.file("agent"));
    expectRefused(dir, "no regular file");
    std::filesystem::remove(dir.file("agent"));
    ASSERT_EQ(0, ::mkfifo(dir.file("agent").c_str(), 0644));
    expectRefused(dir, "no regular file");
}

TEST(BufferFileTest, FilesOfOtherUsersAreLeftAlone) {
    if (::geteuid() != 0)
        GTEST_SKIP() << "needs root to make a file of another user";
    const TempDir dir;
    ASSERT_TRUE(createBufferFile(dir.path(), "agent", 4).ok());
    ASSERT_EQ(0, ::chown(dir.file("agent").c_str(), 12345, 12345));
    expectRefused(dir, "belongs to user 12345");
}

TEST(BufferFileTest, DirectoriesThatCannotBeUsedAreNamed) {
    const TempDir dir;
    const Status missing = createBufferFile(dir.file("missing"), "agent", 4).status();
    EXPECT_EQ(NIXL_ERR_BACKEND, missing.code());
    EXPECT_NE(std::string::npos, missing.message().find(dir.file("missing")));
    const std::string file = dir.write("file", "");
    EXPECT_NE(std::string::npos,
              createBufferFile(file, "agent", 4).status().message().find("Not a directory"));
    EXPECT_FALSE(createBufferFile("", "agent", 4).ok());
}

TEST(BufferFileTest, UnwritableDirectory) {
    const TempDir dir;
    ASSERT_EQ(0, ::chmod(dir.path().c_str(), 0555));
    const uid_t user = ::geteuid();
    ASSERT_EQ(0, ::seteuid(user == 0 ? 65534 : user)); // root may write everywhere
    const Result<BufferFile> file = createBufferFile(dir.path(), "agent", 4);
    ASSERT_EQ(0, ::seteuid(user));
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(NIXL_ERR_BACKEND, file.status().code());
    EXPECT_NE(std::string::npos, file.status().message().find("Permission denied"))
        << file.status().message();
    ASSERT_EQ(0, ::chmod(dir.path().c_str(), 0755));
    EXPECT_TRUE(namesIn(dir.path()).empty());
}

} // namespace
} // namespace nixl
