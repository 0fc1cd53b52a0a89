"""A run seen from outside: one picture and one short clip, drawn by MuJoCo off screen."""

import io

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from trimtab.arm import Arm
from trimtab.plant import PlantGap
from trimtab.report.stage import DRIVEN_COLOUR, REFERENCE_COLOUR, Colour, Format, Stage
from trimtab.runlog import RunLog
from trimtab.simulate import Progress

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
PICTURE = Format(960, 720, trail_points=500, facets=28, shadow_size=4096)
CLIP = Format(480, 360, trail_points=300, facets=14, shadow_size=1024)
GHOSTS = 2
FRAME_TIME = 0.08  # s, a multiple of GIF's 0.01 s
CLIP_LENGTH = 8.0  # s; a longer run is shown at speed-up
LAST_FRAME_TIME = 1.2  # s
CLIP_BYTES = 2_500_000
PALETTES = (128, 64, 32)  # colours, tried in this order until the clip is small enough
INK, HALO = (40, 44, 52), (205, 211, 219)  # the halo keeps text readable where the arm reaches behind it


def render_picture(arm: Arm, gap: PlantGap, log: RunLog) -> bytes:
    """A PNG of 960 x 720 pixels: the arm on its path, pale postures around it, reference and driven path of the tool.

    Raises RenderError where this machine cannot draw.
    """
    with Stage(arm, gap, log, PICTURE) as stage:
        row = stage.highest()
        pixels = stage.draw(row, len(log.t) - 1, stage.far_apart(row, GHOSTS))
    image = Image.fromarray(pixels)
    _write_legend(image, log, scale=2)
    stream = io.BytesIO()
    image.save(stream, "PNG", optimize=True)
    return stream.getvalue()


def clip_frames(log: RunLog) -> int:
    """Number of frames of a run's clip."""
    return max(2, round(min(_length(log), CLIP_LENGTH) / FRAME_TIME))


def render_clip(arm: Arm, gap: PlantGap, log: RunLog, progress: Progress | None = None) -> bytes:
    """An animated GIF of 480 x 360 pixels that shows the whole run in at most eight seconds, the driven path growing.

    progress is called with the number of frames drawn since it was called last. Raises RenderError where this machine
    cannot draw.
    """
    speed_up = max(1.0, _length(log) / CLIP_LENGTH)
    frames = []
    with Stage(arm, gap, log, CLIP) as stage:
        for row in np.linspace(0, len(log.t) - 1, clip_frames(log)).astype(int):
            image = Image.fromarray(stage.draw(int(row), int(row)))
            _write_legend(image, log, scale=1)
            _write_time(image, float(log.t[row]), speed_up)
            frames.append(image)
            if progress is not None:
                progress(1)
    clip = b""
    for colours in PALETTES:
        clip = _as_gif(frames, colours)
        if len(clip) <= CLIP_BYTES:
            break
    return clip


def _length(log: RunLog) -> float:
    """Of a run [s]."""
    return float(log.t[-1] - log.t[0])


def _as_gif(frames: list[Image.Image], colours: int) -> bytes:
    """One palette for all frames, made from a few of them: without it, colours of still things flicker."""
    samples = frames[:: max(1, len(frames) // 4)]
    strip = Image.new("RGB", (samples[0].width, samples[0].height * len(samples)))
    for i, sample in enumerate(samples):
        strip.paste(sample, (0, i * sample.height))
    palette = strip.quantize(colours, method=Image.Quantize.MEDIANCUT)
    indexed = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    times = [round(1000 * FRAME_TIME)] * (len(frames) - 1) + [round(1000 * LAST_FRAME_TIME)]
    stream = io.BytesIO()
    indexed[0].save(stream, "GIF", save_all=True, append_images=indexed[1:], duration=times, loop=0)
    return stream.getvalue()


def _write_legend(image: Image.Image, log: RunLog, scale: int) -> None:
    """Names the run and the two trails in the picture's upper left corner."""
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(size=9 * scale + 2)
    line, left = 12 * scale + 2, 7 * scale
    _write(pen, (left, 5 * scale), f"{log.arm}, plant {log.plant}, {log.reference}", font)
    entries = (("reference", REFERENCE_COLOUR), (f"driven by {log.controller}", DRIVEN_COLOUR))
    for i, (text, colour) in enumerate(entries, start=1):
        middle = 5 * scale + i * line + line // 2
        pen.ellipse((left, middle - 3 * scale, left + 6 * scale, middle + 3 * scale), fill=_eight_bit(colour))
        _write(pen, (left + 10 * scale, 5 * scale + i * line), text, font)


def _write_time(image: Image.Image, t: float, speed_up: float) -> None:
    text = f"{t:.1f} s" if speed_up < 1.05 else f"{t:.1f} s, {speed_up:.1f} x speed"
    font = ImageFont.load_default(size=11)
    _write(ImageDraw.Draw(image), (image.width - 7, image.height - 6), text, font, anchor="rs")


def _write(pen: ImageDraw.ImageDraw, place: tuple[int, int], text: str, font: Font, anchor: str = "la") -> None:
    pen.text(place, text, fill=INK, font=font, anchor=anchor, stroke_width=1, stroke_fill=HALO)


def _eight_bit(colour: Colour) -> tuple[int, int, int]:
    red, green, blue = (round(255 * share) for share in colour)
    return red, green, blue
