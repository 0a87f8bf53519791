#include "engine/registry.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <atomic>
#include <barrier>
#include <filesystem>
#include <thread>

#include "support/log_capture.h"
#include "support/temp_dir.h"

namespace nixl {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kModules = NIXL_TEST_MODULES;

std::string
modulePath(const std::string &name) {
    return kModules + "/libplugin_" + name + ".so";
}

class NamedFactory : public EngineFactory {
public:
    explicit NamedFactory(std::string name, bool joins = false) {
        info_.name = std::move(name);
        info_.joins = joins;
    }

    const EngineInfo &
    info() const override {
        return info_;
    }

    Result<std::unique_ptr<Engine>>
    create(const EngineConfig &) const override {
        return Status(NIXL_ERR_BACKEND, "created only in name");
    }

private:
    EngineInfo info_;
};

std::shared_ptr<EngineFactory>
named(const std::string &name) {
    return std::make_shared<NamedFactory>(name);
}

/// The message with which an engine of the modules' folder is refused.
std::string
refusal(const std::string &name, std::vector<ModuleAdapter> adapters = {}) {
    EngineRegistry registry({}, std::move(adapters), {kModules});
    const Result<std::shared_ptr<EngineFactory>> factory = registry.find(name);
    if (factory.ok())
        return "not refused";
    EXPECT_EQ(factory.status().code(), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(factory.status().message(), HasSubstr(modulePath(name)));
    return factory.status().message();
}

TEST(EngineRegistry, BuiltInOnesComeFirstAndInOrder) {
    EngineRegistry registry({named("ZULU"), named("ALPHA")}, {}, {kModules});
    EXPECT_THAT(registry.names(), ElementsAre("ZULU", "ALPHA", "EMPTY", "FOREIGN", "GOOD", "MISNAMED",
                                              "NETWORK", "NOEXPORT", "OLD", "SECOND", "THROWING"));
    const Result<std::shared_ptr<EngineFactory>> zulu = registry.find("ZULU");
    ASSERT_TRUE(zulu.ok());
    EXPECT_EQ(zulu.value()->info().name, "ZULU");
}

TEST(EngineRegistry, LoadsAFileOnceAndKeepsIt) {
    EngineRegistry registry({}, {}, {kModules});
    const Result<std::shared_ptr<EngineFactory>> first = registry.find("GOOD");
    ASSERT_TRUE(first.ok()) << first.status().message();
    EXPECT_EQ(first.value()->info().name, "GOOD");
    EXPECT_EQ(first.value()->info().version, "1.2.3");
    EXPECT_EQ(first.value()->create({}).status().message(), "created only in name");
    const Result<std::shared_ptr<EngineFactory>> second = registry.find("GOOD");
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(first.value(), second.value());
}

TEST(EngineRegistry, FactoriesOutliveTheRegistry) {
    std::shared_ptr<EngineFactory> factory;
    {
        EngineRegistry registry({}, {}, {kModules});
        factory = registry.find("SECOND").value();
    }
    EXPECT_EQ(factory->info().name, "SECOND");
}

TEST(EngineRegistry, NothingIsLoadedBeforeItIsAskedFor) {
    const test::TempDir dir;
    std::filesystem::copy_file(modulePath("GOOD"), dir.file("libplugin_GOOD.so"));
    EngineRegistry registry({}, {}, {dir.path()});
    std::filesystem::remove(dir.file("libplugin_GOOD.so"));
    EXPECT_THAT(registry.names(), ElementsAre("GOOD"));
    EXPECT_THAT(registry.find("GOOD").status().message(), HasSubstr(dir.file("libplugin_GOOD.so")));
}

TEST(EngineRegistry, DirectoriesAreListedOnce) {
    const test::TempDir dir;
    EngineRegistry registry({}, {}, {dir.path()});
    std::filesystem::copy_file(modulePath("GOOD"), dir.file("libplugin_GOOD.so"));
    EXPECT_FALSE(registry.find("GOOD").ok());
    EXPECT_TRUE(EngineRegistry({}, {}, {dir.path()}).find("GOOD").ok());
}

TEST(EngineRegistry, AnotherInterfaceIsRefusedWithBothNumbers) {
    EXPECT_THAT(refusal("OLD"),
                HasSubstr(concat("it was built for engine interface 999, this library has ", kEngineAbi)));
}

TEST(EngineRegistry, ALibraryWithoutAnEntryPointIsRefused) {
    EXPECT_THAT(refusal("NOEXPORT"), HasSubstr("it exports neither nixl_engine_init nor nixl_plugin_init"));
}

TEST(EngineRegistry, ALibraryOfAnotherNameIsRefused) {
    EXPECT_THAT(refusal("MISNAMED"), HasSubstr("it holds the engine 'OTHER', not 'MISNAMED'"));
}

TEST(EngineRegistry, ALibraryThatMakesNothingIsRefused) {
    EXPECT_THAT(refusal("EMPTY"), HasSubstr("it made no engine factory"));
}

TEST(EngineRegistry, ALibraryThatThrowsIsRefused) {
    EXPECT_THAT(refusal("THROWING"), HasSubstr("it threw: no driver"));
}

TEST(EngineRegistry, WhatIsNoLibraryIsRefused) {
    const test::TempDir dir;
    dir.write("libplugin_TEXT.so", "just text");
    std::filesystem::create_directory(dir.file("libplugin_FOLDER.so"));
    ASSERT_EQ(::mkfifo(dir.file("libplugin_FIFO.so").c_str(), 0600), 0);
    std::filesystem::create_symlink("/nonexistent", dir.file("libplugin_LINK.so"));
    EngineRegistry registry({}, {}, {dir.path()});
    EXPECT_THAT(registry.find("TEXT").status().message(),
                AllOf(HasSubstr("engine TEXT: "), HasSubstr(dir.file("libplugin_TEXT.so")),
                      HasSubstr("cannot load")));
    for (const char *name : {"FOLDER", "FIFO", "LINK"})
        EXPECT_THAT(registry.find(name).status().message(), HasSubstr("it is not a regular file")) << name;
}

TEST(EngineRegistry, ARefusalIsKept) {
    const test::TempDir dir;
    const std::string path = dir.write("libplugin_GOOD.so", "just text");
    EngineRegistry registry({}, {}, {dir.path()});
    const std::string message = registry.find("GOOD").status().message();
    std::filesystem::remove(path);
    std::filesystem::copy_file(modulePath("GOOD"), path);
    EXPECT_EQ(registry.find("GOOD").status().message(), message);
}

TEST(EngineRegistry, FilesOfOddNamesAreIgnored) {
    const test::TempDir dir;
    for (const char *name : {"libplugin_.so", "libplugin_A B.so", "libplugin_A.B.so", "libplugin_\xc3\xa9.so",
                             "libplugin_A;B.so", "libplugin_A.so.1", "plugin_A.so", "libplugin_A",
                             "Libplugin_A.so", "libplugin_A\n.so", "xlibplugin_A.so"})
        dir.write(name, "");
    dir.write("libplugin_" + std::string(65, 'L') + ".so", "");
    dir.write("libplugin_" + std::string(64, 'M') + ".so", "");
    dir.write("libplugin_gds_mt-2.so", "");
    EXPECT_THAT(EngineRegistry({}, {}, {dir.path()}).names(), ElementsAre(std::string(64, 'M'), "gds_mt-2"));
}

TEST(EngineRegistry, ABuiltInEngineWinsOverAFile) {
    const test::LogCapture log;
    EngineRegistry registry({named("GOOD")}, {}, {kModules});
    EXPECT_EQ(log.count(concat("'", modulePath("GOOD"), "' is not used: GOOD is built in")), 1u);
    const std::vector<std::string> names = registry.names();
    EXPECT_EQ(std::count(names.begin(), names.end(), "GOOD"), 1);
    EXPECT_EQ(registry.find("GOOD").value()->info().version, "");
}

TEST(EngineRegistry, TheOneThatJoinsIsBuiltIn) {
    EXPECT_EQ(EngineRegistry({named("ALPHA")}, {}, {kModules}).joining(), nullptr);
    EngineRegistry registry({named("ALPHA"), std::make_shared<NamedFactory>("HOST", true)}, {}, {kModules});
    ASSERT_NE(registry.joining(), nullptr);
    EXPECT_EQ(registry.joining()->info().name, "HOST");
}

TEST(EngineRegistry, TheFirstDirectoryWins) {
    const test::TempDir dir;
    std::filesystem::copy_file(modulePath("GOOD"), dir.file("libplugin_GOOD.so"));
    std::vector<std::string> loaded;
    const ModuleAdapter adapter = [&](const std::shared_ptr<DynamicLibrary> &library) {
        loaded.push_back(library->path());
        return Result<std::shared_ptr<EngineFactory>>(named("FOREIGN"));
    };
    std::filesystem::copy_file(modulePath("FOREIGN"), dir.file("libplugin_FOREIGN.so"));
    EngineRegistry registry({}, {adapter}, {dir.path(), kModules});
    ASSERT_TRUE(registry.find("FOREIGN").ok());
    EXPECT_THAT(loaded, ElementsAre(dir.file("libplugin_FOREIGN.so")));
}

TEST(EngineRegistry, ALaterDirectoryStandsInForAFileThatCannotBeUsed) {
    const test::TempDir dir;
    const std::string broken = dir.write("libplugin_GOOD.so", "just text");
    const test::LogCapture log;
    EngineRegistry registry({}, {}, {dir.path(), kModules});
    const Result<std::shared_ptr<EngineFactory>> factory = registry.find("GOOD");
    ASSERT_TRUE(factory.ok()) << factory.status().message();
    EXPECT_EQ(log.count(concat("'", broken, "' cannot be used"), LogLevel::kWarn), 1u);
    EXPECT_EQ(log.count(concat("'", modulePath("GOOD"), "' is used instead"), LogLevel::kWarn), 1u);
}

TEST(EngineRegistry, AdaptersAreAskedInOrder) {
    std::vector<std::string> asked;
    const auto adapter = [&](const std::string &label, bool takes) {
        return [&asked, label, takes](const std::shared_ptr<DynamicLibrary> &library) {
            asked.push_back(label);
            const bool knows = takes && library->symbol("nixl_test_foreign_init");
            return Result<std::shared_ptr<EngineFactory>>(knows ? named("FOREIGN") : nullptr);
        };
    };
    EngineRegistry registry({}, {adapter("a", false), adapter("b", true), adapter("c", true)}, {kModules});
    ASSERT_TRUE(registry.find("FOREIGN").ok());
    EXPECT_THAT(asked, ElementsAre("a", "b"));
    EXPECT_FALSE(registry.find("NOEXPORT").ok());
    EXPECT_THAT(asked, ElementsAre("a", "b", "a", "b", "c"));
    EXPECT_TRUE(registry.find("GOOD").ok());
    EXPECT_EQ(asked.size(), 5u) << "an engine of our own needs no adapter";
}

TEST(EngineRegistry, AnAdaptersReasonIsPassedOn) {
    const ModuleAdapter refuses = [](const std::shared_ptr<DynamicLibrary> &) {
        return Result<std::shared_ptr<EngineFactory>>(
            Status(NIXL_ERR_NOT_SUPPORTED, "a binary of somebody else"));
    };
    EXPECT_THAT(refusal("FOREIGN", {refuses}), HasSubstr("a binary of somebody else"));
}

TEST(EngineRegistry, AnUnknownNameGetsAListOfWhatThereIs) {
    const test::TempDir empty;
    EngineRegistry registry({named("LOCAL")}, {}, {"", kModules, empty.path(), "/nonexistent/plugins"});
    const Status status = registry.find("UCX").status();
    EXPECT_EQ(status.code(), NIXL_ERR_NOT_FOUND);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("no engine 'UCX'"), HasSubstr("known: LOCAL, EMPTY, FOREIGN, GOOD"),
                      HasSubstr(kModules), HasSubstr(empty.path()),
                      HasSubstr("/nonexistent/plugins (No such file or directory)")));
    EXPECT_EQ(EngineRegistry({}, {}, {}).find("X").status().message(),
              "no engine 'X'; known: none; plugin directories searched: none");
}

TEST(EngineRegistry, NamesAreCaseSensitive) {
    EngineRegistry registry({named("LOCAL")}, {}, {});
    EXPECT_THAT(registry.find("local").status().message(),
                HasSubstr("names are case-sensitive; there is 'LOCAL'"));
}

TEST(EngineRegistry, AnEmptyDirectoryNameIsNotTheCurrentOne) {
    EngineRegistry registry({}, {}, {""});
    EXPECT_THAT(registry.names(), ElementsAre());
    EXPECT_THAT(registry.find("X").status().message(), HasSubstr("searched: none"));
}

TEST(EngineRegistry, ManyThreadsGetTheSameFactory) {
    std::atomic<int> loads{0};
    const ModuleAdapter adapter = [&](const std::shared_ptr<DynamicLibrary> &) {
        ++loads;
        return Result<std::shared_ptr<EngineFactory>>(named("FOREIGN"));
    };
    EngineRegistry registry({}, {adapter}, {kModules});
    std::vector<std::shared_ptr<EngineFactory>> found(8);
    std::barrier start(static_cast<std::ptrdiff_t>(found.size()));
    std::vector<std::thread> threads;
    for (std::shared_ptr<EngineFactory> &slot : found)
        threads.emplace_back([&] {
            start.arrive_and_wait();
            slot = registry.find("FOREIGN").value();
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(loads.load(), 1);
    for (const std::shared_ptr<EngineFactory> &slot : found)
        EXPECT_EQ(slot, found[0]);
}

TEST(EngineRegistry, LoadingOneEngineDoesNotBlockAnother) {
    EngineRegistry *registry = nullptr;
    bool loadedWithin = false;
    const ModuleAdapter adapter = [&](const std::shared_ptr<DynamicLibrary> &) {
        std::thread other([&] { loadedWithin = registry->find("GOOD").ok(); });
        other.join();
        return Result<std::shared_ptr<EngineFactory>>(named("FOREIGN"));
    };
    EngineRegistry local({}, {adapter}, {kModules});
    registry = &local;
    EXPECT_TRUE(local.find("FOREIGN").ok());
    EXPECT_TRUE(loadedWithin);
}

} // namespace
} // namespace nixl
