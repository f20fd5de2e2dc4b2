"""Rules of Pulumi programs; listed without importing Pulumi."""

from fusioninfer_pulumi.findings import Rule

COMPONENT_NOT_EXPANDED = Rule(
    "component-not-expanded",
    "warning",
    "What only the Pulumi engine can expand is missing here.",
    remedy="Use `pulumi preview` for these objects.",
)
CONFIG_ENCRYPTED = Rule(
    "config-encrypted",
    "warning",
    "Encrypted config values are not decrypted: `<secret>` stands for them.",
    remedy="Nothing: this is for your information.",
)
CONFIG_VALUE_MISSING = Rule(
    "config-value-missing",
    "error",
    "Every config value that `Pulumi.yaml` declares has a value in the stack.",
    remedy="Set it with `pulumi config set`, or give it a default.",
)
DYNAMIC_PROVIDER_NOT_RUN = Rule(
    "dynamic-provider-not-run",
    "warning",
    "Dynamic providers run only in a deployment.",
    remedy="Use `pulumi preview` for these objects.",
)
ENVIRONMENT_NOT_OPENED = Rule(
    "environment-not-opened",
    "warning",
    "Only Pulumi can open an ESC environment: it is left out.",
    remedy="Expect differences where the program reads its values.",
)
PROGRAM_ENDED = Rule(
    "program-ended",
    "error",
    "The program returns, and does not end its process (`os._exit`, a crash).",
    remedy="Remove the call, or correct the crash.",
)
PROGRAM_ERROR_MESSAGE = Rule(
    "program-error-message",
    "warning",
    "The program logged an error.",
    remedy="See the message.",
)
PROGRAM_FAILED = Rule(
    "program-failed",
    "error",
    "The program runs to its end.",
    remedy="Correct the program; the lines below the message are yours.",
)
PROGRAM_MISSING = Rule(
    "program-missing",
    "error",
    "The project's program exists.",
    remedy="Correct `main` in `Pulumi.yaml`, or add `__main__.py`.",
)
PROGRAM_NOT_ENDED = Rule(
    "program-not-ended",
    "error",
    "The program ends within the limit of `--timeout`.",
    remedy="See where it waits; raise the limit if it needs the time.",
)
PROGRAM_WARNING = Rule(
    "program-warning",
    "warning",
    "The program logged a warning.",
    remedy="See the message.",
)
PROGRAM_WITHOUT_SERVICE = Rule(
    "program-without-service",
    "warning",
    "A program that is checked or planned makes an InferenceService.",
    remedy="Make one, or check another project; a program that calls `sys.exit` ends there.",
)
PROJECT_FILE_INVALID = Rule(
    "project-file-invalid",
    "error",
    "`Pulumi.yaml` and the stack's file are valid.",
    remedy="Correct the file as the message says.",
)
PROJECT_MISSING = Rule(
    "project-missing",
    "error",
    "A project folder holds `Pulumi.yaml`.",
    remedy="Give the folder of a project.",
)
PROVIDER_FUNCTION_UNANSWERED = Rule(
    "provider-function-unanswered",
    "warning",
    "A function that only its provider can answer returns nothing here.",
    remedy="Pass the value as config if the plan depends on it.",
)
PROVIDER_NAMESPACE_NOT_WRITTEN = Rule(
    "provider-namespace-not-written",
    "warning",
    "A provider's default namespace is not written into objects here.",
    remedy="Write `metadata.namespace` if you use the rendered objects without Pulumi.",
)
READ_RESOURCE_UNKNOWN = Rule(
    "read-resource-unknown",
    "warning",
    "A resource that is read from the cluster is unknown here.",
    remedy="Nothing, unless the plan depends on it.",
)
RESOURCE_EXISTENCE_UNKNOWN = Rule(
    "resource-existence-unknown",
    "warning",
    "Whether a resource exists is unknown here.",
    remedy="Nothing, unless the plan depends on it.",
)
RUNTIME_NOT_PYTHON = Rule(
    "runtime-not-python",
    "error",
    "The program is written in Python.",
    remedy="Give the manifest that it deploys, or use `pulumi preview`.",
)
STACK_FILE_INVALID = Rule(
    "stack-file-invalid",
    "error",
    "`Pulumi.STACK.yaml` is valid.",
    remedy="Correct the file as the message says.",
)
STACK_MISSING = Rule(
    "stack-missing",
    "error",
    "The stack of `--stack` has a config file.",
    remedy="Use the name of an existing stack.",
)
STACK_NOT_CHOSEN = Rule(
    "stack-not-chosen",
    "warning",
    "Where a project has several stacks, one is chosen.",
    remedy="Give `--stack`.",
)
STACK_REFERENCE_UNKNOWN = Rule(
    "stack-reference-unknown",
    "warning",
    "Outputs of other stacks are unknown here.",
    remedy="Pass the value as config if the plan depends on it.",
)
