"""Reads a bill of materials with CycloneDX's own library: `bill.py FILE`.

Prints name, version and licence of each component, or ends with the error.
"""

import json
import sys

from cyclonedx.model.bom import Bom
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from license_expression import get_spdx_licensing

with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
    sys.exit(str(error))
for component in Bom.from_json(json.loads(text)).components:
    for licence in component.licenses:
        if errors := get_spdx_licensing().validate(licence.value).errors:
            sys.exit(f"{component.name}: {errors}")
        print(component.name, component.version, licence.value)
