"""/v1/batch/uploads: files in pieces, by the tus protocol."""

from __future__ import annotations

from gateway.batch.upload_store import CHECKSUMS, UPLOAD_ID
from gateway.batch.uploads import BODY_TYPE, EXTENSIONS, METADATA_CHARACTERS, PATH, VERSION
from gateway.openapi.here import Here
from gateway.openapi.operation import Operation, Room, answer, body, header, in_header, in_path
from gateway.openapi.shapes import Json

TAG = "Uploads"
ONE = f"{PATH}/{{upload}}"
AT = f"{PATH}/UPLOAD"
_TUS = f"-H 'Tus-Resumable: {VERSION}'"


def room(here: Here) -> Room:
    """The routes."""
    most = here.settings.batch_max_file_bytes
    upload = in_path("upload", "Its id.", pattern=f"^{UPLOAD_ID}$")
    tus = in_header("Tus-Resumable", "The version of the protocol.", required=True, enum=[VERSION])
    offset: Json = {"type": "integer", "minimum": 0, "maximum": most}
    checksum = in_header("Upload-Checksum", f"An algorithm ({', '.join(CHECKSUMS)}), a space and base64 of the digest.",
        format="tus-checksum")  # fmt: skip
    pieces = body({"type": "string", "format": "binary"}, BODY_TYPE, "The bytes that follow.")
    spoken = {"Tus-Resumable": header("The version that is spoken.", enum=[VERSION])}
    state = spoken | {"Upload-Offset": header("Bytes that have come.", type="integer"),
        "Upload-Expires": header("When it goes if nothing more comes.")}  # fmt: skip
    able = {
        "Tus-Version": header("Versions that are spoken."),
        "Tus-Extension": header(f"Extensions: {EXTENSIONS}."),
        "Tus-Max-Size": header("Bytes of the largest file.", type="integer"),
        "Tus-Checksum-Algorithm": header("Algorithms of checksums."),
    }

    def options(path: str, id: str, *parameters: Json) -> Operation:
        return Operation(
            method="OPTIONS", path=path, id=id, tag=TAG, summary="What this server can do", parameters=parameters,
            answers={204: answer("In headers.", headers=spoken | able)},
            at=path.replace("{upload}", "UPLOAD"), curl="-X OPTIONS -i",
        )  # fmt: skip

    return Room(
        tag=TAG,
        about="Large files in pieces, for jobs: tus 1.0.0 with creation, expiration, termination and checksum, so that "
        "every tus client can be used. Sending goes on where it stopped, whatever went away.",
        operations=[
            options(PATH, "uploadOptions"),
            Operation(
                method="POST", path=PATH, id="createUpload", tag=TAG, summary="Begin an upload",
                parameters=[
                    tus,
                    in_header("Upload-Length", "Bytes of the file.", required=True, **offset),
                    in_header("Upload-Metadata", "Keys, each with a space and base64 of text, separated by commas; "
                        "`filename` becomes the job's name.", maxLength=METADATA_CHARACTERS, format="tus-metadata"),
                ],
                answers={201: answer("Its address.", headers=spoken | {
                    "Location": header("Where the bytes go."), "Upload-Expires": state["Upload-Expires"]})},
                fails=(400, 412, 413, 429, 500, 503, 507), curl=f"-X POST -i {_TUS} -H 'Upload-Length: 1000'",
            ),
            options(ONE, "uploadOptionsOfOne", in_path("upload", "Its id.")),
            Operation(
                method="HEAD", path=ONE, id="uploadState", tag=TAG, summary="How much has come",
                parameters=[upload, tus],
                answers={200: answer("In headers.", headers=state | {
                    "Upload-Length": header("Bytes of the file.", type="integer"),
                    "Upload-Metadata": header("As it was given.", required=False)})},
                fails=(404, 410, 412, 500, 503), at=AT, curl=f"-I {_TUS}",
            ),
            Operation(
                method="PATCH", path=ONE, id="continueUpload", tag=TAG, summary="Send more bytes",
                description="What came of a request that breaks off is kept, unless it was to have a checksum.",
                parameters=[upload, tus, in_header("Upload-Offset", "Bytes that have come.", required=True, **offset),
                    checksum],
                body=pieces, answers={204: answer("How much has come now.", headers=state)},
                fails=(400, 404, 408, 409, 410, 412, 413, 415, 423, 460, 500, 503, 507), at=AT,
                curl=f"-X PATCH -i {_TUS} -H 'Upload-Offset: 0' -H 'Content-Type: {BODY_TYPE}' --data-binary @talk.mp3",
            ),
            Operation(
                method="DELETE", path=ONE, id="deleteUpload", tag=TAG, summary="Give an upload up",
                parameters=[upload, tus], answers={204: answer("It is gone.", headers=spoken)},
                fails=(404, 410, 412, 423, 500, 503), at=AT, curl=f"-X DELETE {_TUS}",
            ),
            Operation(
                method="POST", path=ONE, id="overrideUpload", tag=TAG, summary="PATCH or DELETE under another name",
                description="For what lies between and lets neither through.",
                parameters=[upload, tus,
                    in_header("X-HTTP-Method-Override", "Which of them.", required=True, enum=["PATCH", "DELETE"]),
                    in_header("Upload-Offset", "Bytes that have come, for PATCH.", **offset), checksum],
                body=pieces, answers={204: answer("As the other method says.", headers=spoken)},
                fails=(400, 404, 405, 408, 409, 410, 412, 413, 415, 423, 460, 500, 503, 507), at=AT,
                curl=f"-X POST -i {_TUS} -H 'X-HTTP-Method-Override: DELETE'",
            ),
        ],
    )  # fmt: skip
