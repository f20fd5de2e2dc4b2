"""Configuration of a program: stacks, defaults, secrets."""

from __future__ import annotations

from cli.projects import PROJECT, Folder, messages


def test_stack_values_keep_their_spelling(folder: Folder) -> None:
    folder.write(
        "Pulumi.prod.yaml",
        """
        config:
          app:tag: 1.10
          app:on: yes
          app:replicas: 2
          app:debug: true
          app:nothing:
          bare: "quoted"
          other:region: here
        """,
    )
    folder.reads(
        tag='config.require("tag")',
        on='config.require("on")',
        replicas='str(config.require_int("replicas") + 1)',
        debug='str(config.require_bool("debug"))',
        nothing='config.require("nothing")',
        bare='config.require("bare")',
        region='pulumi.Config("other").require("region")',
        absent='str(config.get("absent"))',
        stack="pulumi.get_stack()",
        project="pulumi.get_project()",
        dry="str(pulumi.runtime.is_dry_run())",
    )
    assert folder.data("prod") == folder.data() == folder.data("acme/app/prod")
    assert folder.data() == {
        "absent": "None",
        "bare": "quoted",
        "debug": "True",
        "dry": "True",
        "nothing": "",
        "on": "yes",
        "project": "app",
        "region": "here",
        "replicas": "3",
        "stack": "prod",
        "tag": "1.10",
    }


def test_structured_values_are_objects(folder: Folder) -> None:
    folder.write(
        "Pulumi.dev.yaml",
        "config:\n  app:model:\n    name: qwen\n    sizes: [1, 2.5, true]\n  app:list: [a, b]\n",
    )
    folder.reads(
        model='json.dumps(config.require_object("model"))',
        list='json.dumps(config.require_object("list"))',
    )
    assert folder.data() == {
        "list": '["a", "b"]',
        "model": '{"name": "qwen", "sizes": [1, 2.5, true]}',
    }


def test_config_defaults_of_project_are_read(folder: Folder) -> None:
    folder.write(
        "Pulumi.yaml",
        PROJECT
        + """
config:
  short: text
  count: 3
  declared: {type: string, default: fallback, description: said}
  valued: {value: 1.10}
  full: {type: object, default: {name: deepseek}}
  overridden: {type: string, default: a}
  other:region: {value: there}
""",
    )
    folder.write("Pulumi.dev.yaml", "config:\n  app:overridden: b\n")
    folder.reads(
        short='config.require("short")',
        count='config.require("count")',
        declared='config.require("declared")',
        valued='config.require("valued")',
        full='config.require_object("full")["name"]',
        overridden='config.require("overridden")',
        region='pulumi.Config("other").require("region")',
    )
    assert folder.data() == {
        "count": "3",
        "declared": "fallback",
        "full": "deepseek",
        "overridden": "b",
        "region": "there",
        "short": "text",
        "valued": "1.10",
    }


def test_config_secrets_are_masked(folder: Folder) -> None:
    folder.write("Pulumi.dev.yaml", "config:\n  app:token: hunter2\n")
    folder.reads(token='config.require_secret("token")', open='config.require("token")')
    assert folder.data() == {"open": "hunter2", "token": "<secret>"}
    assert folder.data(show_secrets=True)["token"] == "hunter2"


def test_encrypted_values_have_a_placeholder(folder: Folder) -> None:
    folder.write(
        "Pulumi.dev.yaml",
        """
        encryptionsalt: v1:abc
        config:
          app:token:
            secure: v1:xyz
          app:login:
            user: me
            password: {secure: v1:xyz}
        """,
    )
    folder.reads(
        token='config.require_secret("token")',
        plain='config.require("token")',
        login='json.dumps(config.require_object("login"))',
    )
    for show_secrets in (False, True):
        recording = folder.run(show_secrets=show_secrets)
        assert recording.objects[0]["data"] == {
            "login": '{"user": "me", "password": "<secret>"}',
            "plain": "<secret>",
            "token": "<secret>",
        }
        assert messages(recording) == (
            "Pulumi.dev.yaml: config app:token is encrypted; <secret> is used instead",
            "Pulumi.dev.yaml: config app:login is encrypted; <secret> is used instead",
        )


def test_esc_environment_is_a_warning(folder: Folder) -> None:
    folder.write("Pulumi.dev.yaml", "environment: [shared]\n")
    folder.reads()
    (warning,) = messages(folder.run())
    assert warning.startswith("Pulumi.dev.yaml: environment")


def test_missing_config_is_an_error(folder: Folder) -> None:
    folder.reads(image='config.require("image")')
    first, *_, frame = folder.fails().splitlines()
    assert first == "Missing required configuration variable 'app:image'"
    assert frame == "  __main__.py:6"


def test_stack_is_selected_or_guessed_with_a_note(folder: Folder) -> None:
    folder.reads(stack="pulumi.get_stack()", key='str(config.get("key"))')
    assert folder.data() == {"key": "None", "stack": "dev"}
    folder.write("Pulumi.prod.yml", "config: {key: p}\n")
    assert folder.data() == {"key": "p", "stack": "prod"}
    folder.write("Pulumi.test.yaml", "config: {key: t}\n")
    recording = folder.run()
    assert recording.objects[0]["data"] == {"key": "None", "stack": "dev"}
    assert messages(recording) == (
        "no stack selected, running without config (stacks: prod, test); select one with --stack",
    )
    folder.write("Pulumi.dev.yaml", "")
    assert messages(folder.run()) == (
        "no stack selected, using dev (stacks: dev, prod, test); select one with --stack",
    )
    assert messages(folder.run("dev")) == ()
    message = folder.fails("stage")
    assert message == "no stack stage: Pulumi.stage.yaml is missing (stacks: dev, prod, test)"


def test_unknown_stack_message_says_that_there_are_none(folder: Folder) -> None:
    folder.reads()
    assert folder.fails("prod") == "no stack prod: Pulumi.prod.yaml is missing (stacks: none)"


def test_stack_config_dir_is_read(folder: Folder) -> None:
    folder.write("Pulumi.yaml", PROJECT + "stackConfigDir: stacks\n")
    folder.write("stacks/Pulumi.prod.yaml", "config: {key: p}\n")
    folder.reads(key='config.require("key")')
    assert folder.data("prod") == {"key": "p"}
