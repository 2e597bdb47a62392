job "a/../b" {
  name = "safe‮gpj.exe"
  group "g" {
    task "​t" { driver = "mock" }
  }
}
